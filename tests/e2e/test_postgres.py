"""The installed server with its database on PostgreSQL, by a line that can be cut."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.fakes.cut import Cut
from tests.fakes.server import Server, trunkline

pytestmark = pytest.mark.needs("postgres")

CANARY = "hunter2canary"
GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "postgresql.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"```(\w+)\n(.*?)```", GUIDE, re.DOTALL))
CONFIG = f"""
{BLOCKS["toml"]}
[providers.echo]
kind = "echo"
models = ["echo"]
"""
UNKNOWN = "swb_" + "0" * 32


@pytest.fixture
def line(postgres: str) -> Iterator[Cut]:
    head, at, tail = postgres.partition("@")
    with Cut(f"{head}:{CANARY}{at}{tail}") as line:
        yield line


@pytest.mark.proves("store-outage")
def test_servers_on_one_database_share_their_keys_and_outlive_its_loss(line: Cut, tmp_path: Path) -> None:
    with (
        Server(tmp_path / "one", config=CONFIG, DATABASE_URL=line.url) as one,
        Server(tmp_path / "two", config=CONFIG, DATABASE_URL=line.url) as two,
    ):
        assert not (two.data / "admin.key").exists(), "there is an admin key already"
        assert not list(one.data.glob("*.sqlite*"))
        made = trunkline("keys", "create", "ci", "--config", two.config, "--data", two.data, home=two.home, DATABASE_URL=line.url)
        key = made.stdout.strip()
        for server in (one, two):
            assert server.ask("GET", "/v1/models", key=key).status == 200
            assert server.ask("GET", "/v1/models", key=one.key).status == 200

        line.cut()
        assert one.ask("GET", "/v1/models", key=key).status == 200
        reply = one.ask("GET", "/v1/models", key=UNKNOWN)
        assert (reply.status, reply.json["error"]["code"]) == (503, "store_unavailable")
        assert one.said("a background task failed", task="keys: read")
        assert one.ask("GET", "/readyz", key=None).status == 503

        line.mend()
        assert one.ask("GET", "/v1/models", key=UNKNOWN).status == 401
        assert one.ask("GET", "/readyz", key=None).status == 200
        assert one.ask("GET", "/v1/models", key=key).status == 200
        assert (one.stop(), two.stop()) == (0, 0)
        for text in [*one.raw, *two.raw, made.stdout, made.stderr]:
            assert CANARY not in text
            assert "postgresql://" not in text


def test_the_guide_s_own_steps_make_a_database_that_works(postgres: str, tmp_path: Path) -> None:
    name = f"guide_{postgres[-8:]}"
    export, *commands = BLOCKS["sh"].strip().splitlines()
    url = export.partition("'")[2].partition("'")[0].partition("?")[0]
    server = postgres.rpartition("@")[2].partition("/")[0]
    ours = re.sub(r"//trunkline:(.*)@.*/trunkline$", rf"//{name}:\1@{server}/{name}", url)
    config = tmp_path / "trunkline.toml"
    config.write_text(CONFIG)
    with psycopg.connect(postgres, autocommit=True) as connection:
        for statement in re.sub(r"\btrunkline\b", name, BLOCKS["sql"]).strip().splitlines():
            connection.execute(statement)
        try:
            told = [
                trunkline(*command.partition("#")[0].split()[1:], home=tmp_path, DATABASE_URL=ours, XDG_DATA_HOME=str(tmp_path))
                for command in commands
                if "serve" not in command
            ]
            with Server(tmp_path, config=CONFIG, DATABASE_URL=ours) as served:
                assert served.ask("GET", "/v1/models", key=told[1].stdout.strip()).status == 200
        finally:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            connection.execute(f"DROP ROLE {name}")
    assert [run.returncode for run in told] == [0, 0], told
    assert len(commands) == 3


def test_the_doctor_looks_at_the_configured_database_and_says_what_is_wrong(line: Cut, tmp_path: Path) -> None:
    config = tmp_path / "trunkline.toml"
    config.write_text(CONFIG)

    def doctor() -> str:
        run = trunkline("doctor", "--config", config, "--data", tmp_path / "data", home=tmp_path, DATABASE_URL=line.url)
        assert CANARY not in run.stdout + run.stderr
        return run.stdout

    well = doctor()
    assert "✓ database: schema" in well
    assert "PostgreSQL" in well
    line.cut()
    assert "✗ database: the database `t_" in doctor()
