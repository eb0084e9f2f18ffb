import ast
from collections.abc import Iterator
from pathlib import Path

from tests.wire.requirements import REQUIREMENTS

ROOT = Path(__file__).parents[2]


def proved() -> Iterator[tuple[str, Path]]:
    for path in [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("sdk/tests/**/test_*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "proves":
                for argument in node.args:
                    yield str(ast.literal_eval(argument)), path


def test_every_promise_is_proved_and_every_proof_names_a_promise() -> None:
    names = {name for name, _ in proved()}
    assert names - REQUIREMENTS.keys() == set()
    assert REQUIREMENTS.keys() - names == set()
