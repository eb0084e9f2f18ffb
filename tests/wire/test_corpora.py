"""The recordings: each has a known source, and what it says is what it was recorded for."""

import json
import tomllib

import pytest

from tests.wire.streams import CORPORA, DIALECTS, read
from trunkline.model.part import ToolCall
from trunkline.model.usage import Usage

MANIFEST = tomllib.loads((CORPORA / "manifest.toml").read_text())["files"]
FILES = sorted(path.relative_to(CORPORA).as_posix() for path in CORPORA.glob("*/*"))
REQUESTS = [name for name in FILES if name.endswith(".request.json")]


def test_every_file_is_in_the_manifest_with_its_origin_and_source() -> None:
    assert sorted(each["path"] for each in MANIFEST) == FILES
    assert {each["origin"] for each in MANIFEST} == {"recorded", "synthetic"}
    assert all(each["source"] for each in MANIFEST)
    assert all(set(each) == {"path", "origin", "source"} for each in MANIFEST)


def test_every_dialect_has_recordings_and_every_recording_a_dialect() -> None:
    assert {name.partition("/")[0] for name in FILES} == set(DIALECTS)


@pytest.mark.proves("G19")
@pytest.mark.parametrize("name", FILES)
def test_no_recording_holds_a_credential(name: str) -> None:
    text = (CORPORA / name).read_bytes().lower()
    assert not [mark for mark in (b"bearer", b"api_key", b"sk-", b"swb_", b"authorization") if mark in text]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_recorded_request_is_read_and_passes_but_for_its_model(name: str) -> None:
    dialect = DIALECTS[name.partition("/")[0]]
    body = (CORPORA / name).read_bytes()
    request = dialect.read_request(body, "chat")
    told = json.loads(body)
    assert (request.model, request.stream) == (told["model"], told["stream"])
    assert request.max_output == told.get("max_tokens", told.get("max_output_tokens"))
    written = dialect.forward(request, "other/model", ask_usage=True)
    assert not written.usage_added
    assert written.body == body.replace(f'"model": "{told["model"]}"'.encode(), b'"model": "other/model"')


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("anthropic/text", Usage(input=100, cache_read=40, cache_write=10, output=20)),
        ("anthropic/thinking", Usage(input=2000, cache_read=80_000, cache_write=5000, output=700, reasoning=300)),
        ("anthropic/tools", Usage(input=12, output=90)),
        ("anthropic/later_version", Usage(input=12, output=5)),
        ("openai_chat/text", Usage(input=60, cache_read=40, output=20)),
        ("openai_chat/parallel_tools", Usage(input=82, output=17)),
        ("openai_chat/reasoning", Usage(input=100, cache_read=800, output=7, reasoning=50)),
        ("openai_chat/comments", Usage(input=5, cache_read=3, cache_write=1, output=2)),
        ("openai_chat/azure", None),
        ("openai_responses/text", Usage(input=60, cache_read=40, output=20)),
        ("openai_responses/reasoning", Usage(input=100, cache_read=800, output=7, reasoning=50)),
        ("openai_responses/refusal", Usage(input=1, cache_read=3, cache_write=1, output=2)),
        ("openai_responses/open_model", Usage(input=20, output=14)),
    ],
)
def test_usage_is_told_in_buckets_that_do_not_overlap(name: str, usage: Usage | None) -> None:
    assert read(DIALECTS[name.partition("/")[0]], (CORPORA / f"{name}.sse").read_bytes()).reply.usage == usage


def called(call_id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("anthropic/tool_call", [called("toolu_01", "bash", '{"command": "echo ran-the-tool"}')]),
        (
            "anthropic/tools",
            [called("toolu_01", "now", "{}"), called("toolu_02", "read", '{"path":"/etc/hosts"}')],
        ),
        ("openai_chat/tool_call", [called("call_01", "bash", '{"command": "echo ran-the-tool"}')]),
        (
            "openai_chat/parallel_tools",
            [called("call_a", "read", '{"path":"/etc/k\u0131ş"}'), called("call_b", "write", '{"path":"/tmp"}')],
        ),
        ("openai_chat/function_call", [called("call_0", "now", '{"tz":"UTC"}')]),
        ("openai_chat/two_choices", []),
    ],
)
def test_tool_calls_are_told_whole(name: str, calls: list[ToolCall]) -> None:
    assert list(read(DIALECTS[name.partition("/")[0]], (CORPORA / f"{name}.sse").read_bytes()).reply.tool_calls) == calls


def test_what_a_vendor_runs_itself_is_no_call_and_is_told_as_lost() -> None:
    reply = read(DIALECTS["anthropic"], (CORPORA / "anthropic/tools.sse").read_bytes()).reply
    assert [(loss.path, loss.change, loss.severity) for loss in reply.losses] == [
        ("content.1", "unsupported", "material"),
        ("content.2", "unsupported", "material"),
    ]
