"""The commands that are made from resources: what they ask, and how they show the answer."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import notes
from trunkline.app.resources import resources
from trunkline.cli import COMMANDS, RESOURCES
from trunkline.cli import resources as made_commands
from trunkline.cli.client import Answer

CANARY = "sk-canary-0123456789abcdef"
ROW = {"id": "nte_a", "account": "acc_one", "text": "[bold]hello", "colour": None, "created_at": 1795995386.84, "revision": 3}


class Asked:
    """What would have been sent, and what comes back."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any, dict[str, str]]] = []
        self.answer: Any = ROW

    def __call__(self, method: str, path: str, *, body: bytes = b"", headers: dict[str, str], **where: Any) -> Answer:
        self.calls.append((method, path, json.loads(body) if body else None, headers))
        return Answer(200, {}, b"" if self.answer is None else json.dumps(self.answer).encode())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    monkeypatch.setattr(made_commands, "ask", asked)
    return asked


@pytest.fixture
def run(asked: Asked) -> Callable[..., tuple[str, str, Any, dict[str, str]]]:
    app = made_commands.made("notes", notes.RESOURCE)

    def command(*arguments: str) -> tuple[str, str, Any, dict[str, str]]:
        app(arguments, result_action="return_value", exit_on_error=False, print_error=False)
        return asked.calls.pop()

    return command


def test_every_resource_has_a_command_and_every_command_a_resource() -> None:
    assert resources().keys() - COMMANDS.keys() == RESOURCES.keys()


def test_a_query_is_options(run: Callable[..., Any]) -> None:
    assert run("list") == ("GET", "/api/v1/notes", None, {})
    assert run("list", "--limit", "5", "--colour", "red", "--colour", "green", "--since", "1.5", "--after", "a b&c") == (
        "GET",
        "/api/v1/notes?limit=5&after=a+b%26c&colour=red&colour=green&since=1.5",
        None,
        {},
    )


def test_a_body_is_options_and_what_is_not_named_is_not_sent(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("create", "--text", "hello") == ("POST", "/api/v1/notes", {"text": "hello"}, {})
    assert run("change", "nte/a", "--colour", "red") == ("PATCH", "/api/v1/notes/nte%2Fa", {"colour": "red"}, {})
    assert run("change", "nte_a", "--clear", "colour", "--if-match", '"3"')[2:] == ({"colour": None}, {"if-match": '"3"'})
    assert run("change", "nte_a", "--body", '{"text": "x", "colour": "red"}', "--colour", "green")[2] == {"text": "x", "colour": "green"}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "y"}')))
    assert run("create", "--body", "-")[2] == {"text": "y"}
    (tmp_path / "body.json").write_text('{"text": "z"}')
    assert run("create", "--body", f"@{tmp_path}/body.json")[2] == {"text": "z"}
    assert run("delete", "nte_a") == ("DELETE", "/api/v1/notes/nte_a", None, {})


def test_a_secret_comes_from_a_file_or_from_stdin_and_is_no_argument(
    run: Callable[..., Any], asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.answer = None
    (tmp_path / "secret").write_text(f"{CANARY}\n")
    expected = ("POST", "/api/v1/notes/nte_a/seal", {"secret": CANARY}, {})
    assert run("seal", "nte_a", "--secret-file", str(tmp_path / "secret")) == expected
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{CANARY}\n"))
    assert run("seal", "nte_a", "--secret-file", "-") == expected
    with pytest.raises(Exception, match="secret"):
        run("seal", "nte_a", "--secret", CANARY)


def test_an_answer_is_a_table_for_people_and_json_for_programs(
    run: Callable[..., Any], asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    run("get", "nte_a")
    shown = capsys.readouterr().out
    assert "[bold]hello" in shown
    assert "colour" in shown
    assert "2026-11-29T23:36:26+00:00" in shown
    assert "1795995386" not in shown
    run("get", "nte_a", "--json")
    assert json.loads(capsys.readouterr().out) == ROW
    asked.answer = {"data": [ROW], "next": "nte_a"}
    run("list")
    said = capsys.readouterr()
    assert "acc_one" not in said.out, "only the resource's columns"
    assert said.err == "There are more: --after nte_a\n"
    asked.answer = None
    run("delete", "nte_a")
    assert capsys.readouterr().out == "done\n"
