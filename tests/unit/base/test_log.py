import io
import json
import logging
import threading
import time
from collections.abc import Iterator

import pytest

from trunkline.base import log as log_module
from trunkline.base.log import Logger, LogSettings, Writer, mask, open_log

CANARY = "swb_" + "c4nary" * 6


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Slow(io.StringIO):
    """A stream whose reader takes nothing until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.reads = threading.Event()

    def write(self, text: str) -> int:
        self.reached.set()
        assert self.reads.wait(10)
        return super().write(text)


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.fixture(autouse=True)
def standard_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers = root.handlers[:]
    yield
    root.handlers[:] = handlers


def raised(error: Exception) -> Exception:
    """An error with a trace in whose frame a secret stands."""
    secret = str(error)
    with pytest.raises(type(error)) as caught:
        raise error
    assert secret == str(caught.value)
    return caught.value


def written(stream: io.StringIO, say: object, settings: LogSettings | None = None) -> str:
    log, writer = open_log(settings or LogSettings(), stream)
    say(log)
    writer.close()
    return stream.getvalue()


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


# ------------------------------------------------------------------------------------------------------------ mask
@pytest.mark.proves("G19")
@pytest.mark.parametrize(
    ("line", "left"),
    [
        (f"key {CANARY} is wrong", "key *** is wrong"),
        ("GET /v1?key=abc&x=1", "GET /v1?key=***&x=1"),
        ("GET /v1?x=1&api_key=abc", "GET /v1?x=1&api_key=***"),
        ("GET /v1?api-key=sk%2Dabc%2b", "GET /v1?api-key=***"),
        ("GET /v1?x-goog-api-key=abc&subscription-key=def", "GET /v1?x-goog-api-key=***&subscription-key=***"),
        ("GET /v1?access_token=abc&X-Amz-Signature=def&sig=ghi", "GET /v1?access_token=***&X-Amz-Signature=***&sig=***"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("authorization: basic dXNlcjpwYXNz", "authorization: basic ***"),
        ('{"authorization":"Bearer abc"}', '{"authorization":"Bearer ***"}'),
        ("x-api-key: sk-ant-api03-abcdefghijkl", "x-api-key: ***"),
        ("xai-abcdefghijklmnop gsk-abcdefghijklmnop", "*** ***"),
        ("postgresql://user:pa:ss@host/db failed", "postgresql://user:***@host/db failed"),
        ("http://:pw@proxy:3128", "http://:***@proxy:3128"),
    ],
)
def test_what_looks_like_a_credential_is_masked(line: str, left: str) -> None:
    assert mask(line) == left
    assert mask(left) == left


@pytest.mark.parametrize(
    "line",
    [
        "",
        "exchange ok in 12 ms, 3 tokens",
        "model=a/b attempts=1 keys=2",
        "GET /v1/models?monkey_business=1",
        "task-force risk-taking sk-short",
        "http://127.0.0.1:8484/v1 and http://[::1]:80/ and mail@host",
        '{"event":"listening","address":"http://127.0.0.1:8484"}',
    ],
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert mask(line) == line


def test_masking_takes_time_in_proportion_to_the_line() -> None:
    hostile = ["?" + "key" * 100_000, "://" + "a:" * 150_000, "&" * 300_000, "sk-" * 100_000, "bearer " * 40_000]
    begun = time.process_time()
    for line in hostile:
        mask(line)
    assert time.process_time() - begun < 5


# ------------------------------------------------------------------------------------------------------------ lines
def test_a_line_is_json_with_its_time_level_and_facts() -> None:
    (line,) = lines(written(io.StringIO(), lambda log: log.info("exchange", model="a/b", tokens={"input": 1}, ms=1.5)))
    assert list(line) == ["time", "level", "event", "model", "tokens", "ms"]
    assert {**line, "time": ""} == {"time": "", "level": "info", "event": "exchange", "model": "a/b", "tokens": {"input": 1}, "ms": 1.5}
    assert str(line["time"]).endswith("Z")


def test_a_newline_in_a_value_makes_no_second_line() -> None:
    assert len(written(io.StringIO(), lambda log: log.info("exchange", model='a\n{"event":"forged"}')).splitlines()) == 1


def test_lines_below_the_level_are_not_written() -> None:
    def say(log: Logger) -> None:
        log.debug("a")
        log.info("b")
        log.warning("c")

    assert [line["event"] for line in lines(written(io.StringIO(), say, LogSettings(level="warning")))] == ["c"]
    assert [line["event"] for line in lines(written(io.StringIO(), say, LogSettings(level="debug")))] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("stream", "settings", "is_json"),
    [
        (io.StringIO, LogSettings(), True),
        (Terminal, LogSettings(), False),
        (Terminal, LogSettings(format="json"), True),
        (io.StringIO, LogSettings(format="console"), False),
    ],
)
def test_people_get_lines_for_people_and_programs_get_json(stream: type[io.StringIO], settings: LogSettings, *, is_json: bool) -> None:
    text = written(stream(), lambda log: log.info("hello", model="m"), settings)
    assert text.startswith("{") == is_json
    assert "hello" in text


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_gets_colours_unless_it_has_none_or_somebody_wants_none(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *, coloured: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in written(Terminal(), lambda log: log.info("hello"))) == coloured
    assert "\x1b[" not in written(io.StringIO(), lambda log: log.info("hello"), LogSettings(format="console"))


@pytest.mark.proves("G19")
@pytest.mark.parametrize("settings", [LogSettings(), LogSettings(format="console")], ids=["json", "console"])
def test_a_trace_is_written_without_its_secrets_and_without_local_values(settings: LogSettings) -> None:
    def say(log: Logger) -> None:
        log.error("crashed", exc_info=raised(ValueError("Bearer " + CANARY)))

    text = written(io.StringIO(), say, settings)
    assert "Traceback" in text
    assert "ValueError: Bearer ***" in text
    assert CANARY not in text


@pytest.mark.proves("G19")
def test_a_secret_in_any_value_is_masked() -> None:
    text = written(io.StringIO(), lambda log: log.warning(CANARY, path=f"/v1?key={CANARY}", inner={"x": [f"Bearer {CANARY}"]}))
    assert CANARY not in text
    assert len(lines(text)) == 1


def test_a_value_that_is_no_json_is_written_as_text() -> None:
    (line,) = lines(written(io.StringIO(), lambda log: log.info("odd", value=1j, other=2)))
    assert (line["event"], line["value"], line["other"]) == ("odd", "1j", "2")


# ------------------------------------------------------------------------------------------------------- libraries
def test_what_libraries_log_comes_as_lines_of_ours_with_its_trace() -> None:
    def say(log: Logger) -> None:
        logging.getLogger("asyncio").info("not this")
        logging.getLogger("asyncio").warning("slow %s", "callback")
        logging.getLogger("uvicorn.error").error("failed", exc_info=raised(KeyError("gone")))

    slow, failed = lines(written(io.StringIO(), say))
    assert (slow["level"], slow["event"], slow["logger"]) == ("warning", "slow callback", "asyncio")
    assert (failed["level"], failed["event"], failed["logger"]) == ("error", "failed", "uvicorn.error")
    assert "KeyError: 'gone'" in str(failed["exception"])


@pytest.mark.parametrize(("level", "name"), [(30, "warning"), (35, "warning"), (45, "error"), (50, "critical"), (70, "critical")])
def test_levels_of_a_librarys_own_fall_to_the_next_lower_one(level: int, name: str) -> None:
    (line,) = lines(written(io.StringIO(), lambda log: logging.getLogger("lib").log(level, "odd")))
    assert line["level"] == name


# ---------------------------------------------------------------------------------------------------------- writer
def test_a_slow_reader_holds_nobody_up_and_what_is_dropped_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "QUEUED", 3)
    stream = Slow()
    writer = Writer(stream, str)
    writer.write("0")
    assert stream.reached.wait(10)
    for number in range(1, 6):
        writer.write(str(number))
    stream.reads.set()
    writer.close()
    *lines, told = stream.getvalue().splitlines()
    assert lines == ["0", "1", "2", "3"]
    assert json.loads(told) == {"event": "log lines dropped", "level": "warning", "count": 2}


def test_closing_writes_what_is_queued() -> None:
    stream = io.StringIO()
    writer = Writer(stream, str)
    for number in range(100):
        writer.write(str(number))
    writer.close()
    assert stream.getvalue().split() == [str(number) for number in range(100)]


def test_no_line_is_lost_whether_the_writer_sleeps_or_gathers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "TOGETHER", 0.002)
    written = threading.Semaphore(0)

    class Counted(io.StringIO):
        def flush(self) -> None:
            written.release()

    stream = Counted()
    writer = Writer(stream, str)
    for wave in range(3):
        for number in range(4):
            writer.write(f"{wave}{number}")
        while stream.getvalue().split()[-1:] != [f"{wave}3"]:
            assert written.acquire(timeout=10)
        assert not written.acquire(timeout=0.01)  # it sleeps again
    writer.close()
    assert len(stream.getvalue().split()) == 12


def test_a_reader_that_is_gone_ends_the_writing_and_harms_nobody() -> None:
    writer = Writer(Gone(), str)
    writer.write("a")
    writer.close()
    writer.write("b")
    writer.close()


def test_a_stream_with_few_letters_gets_marks_for_the_others_and_all_lines() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    log, writer = open_log(LogSettings(), stream)
    log.info("exchange", model="a/🛰")
    log.info("next")
    writer.close()
    assert [(line["event"], line.get("model")) for line in lines(raw.getvalue().decode())] == [("exchange", "a/?"), ("next", None)]
