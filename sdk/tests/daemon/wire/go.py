"""Go programs of the folder `interop`, built once; what they print."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from trunkline_sdk.daemon.protocol import headers

INTEROP = Path(__file__).parent.parent / "interop"
GOLDEN = Path(__file__).parent / "golden.json"
STANDIN = {"github.com/xibodev/llm-provider-auth": "auth", "github.com/xibodev/llmgw-core": "core"}


class Outcome(NamedTuple):
    """What Go wrote of what it had read, and whether it called the reading an error."""

    json: str
    error: bool


def build(folder: Path, package: str, *, standin: bool) -> Path:
    """A program of `interop`; the modules it needs are the stand-ins, or the originals in Go's cache."""
    if not (folder / "go.mod").exists():
        shutil.copytree(INTEROP, folder, dirs_exist_ok=True)
        if standin:
            with (folder / "go.mod").open("a") as file:
                file.writelines(f"\nreplace {module} => ./standin/{name}\n" for module, name in STANDIN.items())
    program = folder / f"{Path(package).name or 'interop'}.bin"
    # nothing is fetched: what is in the cache was verified when it came there
    settings = {"GOFLAGS": "-mod=mod -buildvcs=false", "GOPROXY": "off", "GONOSUMDB": "*", "GONOSUMCHECK": "1", "GOWORK": "off"}
    subprocess.run(["go", "build", "-o", program, package], cwd=folder, env=os.environ | settings, check=True)
    return program


def ask(program: Path, cases: Iterable[tuple[str, str]]) -> list[Outcome]:
    """What Go makes of each."""
    asked = "".join(json.dumps({"kind": kind, "data": data}) + "\n" for kind, data in cases)
    done = subprocess.run([program], input=asked, stdout=subprocess.PIPE, text=True, check=True)
    return [Outcome(**json.loads(line)) for line in done.stdout.rstrip("\n").split("\n")]


def with_lists(text: str) -> str:
    """Go writes `null` for a list that nobody made; we write an empty one. Both read alike."""
    return re.sub(r'"(providers|surfaces|models)":null', r'"\1":[]', text)


@contextmanager
def serving(program: Path, secret: str) -> Iterator[str]:
    """The daemon that the program is; where it listens."""
    with subprocess.Popen([program, "serve"], stdout=subprocess.PIPE, env=os.environ | {"DAEMON_SECRET": secret, "PORT": "0"}) as daemon:
        try:
            assert daemon.stdout is not None
            said = json.loads(daemon.stdout.readline())
            assert said["header_timeout"].lower().encode() == headers.TIMEOUT
            yield said["listening"]
        finally:
            daemon.terminate()
