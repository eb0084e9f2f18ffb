"""Server-sent events: the same bytes read the same however they are cut, and not one of them is lost."""

import itertools
import re
from collections.abc import Callable, Iterable
from typing import Self

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trunkline_sdk import sse
from trunkline_sdk.sse import Event, Events, EventTooLarge, Records, Rest, comment, event

BOM = b"\xef\xbb\xbf"
MIB = 1024 * 1024


def read(chunks: Iterable[bytes]) -> tuple[list[Event], Rest]:
    reader = Events()
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events, reader.end()


def told(events: Iterable[Event]) -> list[tuple[str, bytes | None]]:
    return [(event.name, event.data) for event in events]


def frames(chunks: Iterable[bytes]) -> list[bytes]:
    reader = Records()
    records = [record for chunk in chunks for record in reader.feed(chunk)]
    last = reader.end()
    assert reader.end() == last
    return records if last is None else [*records, last]


def cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:stop] for start, stop in itertools.pairwise(edges)]


def by_the_letter(stream: bytes) -> list[tuple[str, bytes | None]]:
    """The standard's grammar, read over the whole stream at once."""
    seen, name, data, begun = [], "", None, False
    *lines, _ = re.split(rb"\r\n|\n|\r", stream.removeprefix(BOM))
    for line in lines:
        if not line:
            if begun:
                seen.append((name, data))
            name, data, begun = "", None, False
            continue
        begun = True
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            data = value if data is None else data + b"\n" + value
        elif field == b"event":
            name = value.decode(errors="replace")
    return seen


pieces = st.sampled_from([
    b"data: a", b"data:b", b"data", b"data:  c", b"event: tick", b"event:", b"event", b"id: 7", b"retry: 9", b": hb", b":", b"datax: no",
    b" data: no", "data: k\u0131\u015f 🛰 東".encode(), BOM, b"\n", b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b"\xff", b" ",
])  # fmt: skip
streams = st.lists(pieces, max_size=30).map(b"".join)
places = st.lists(st.integers(min_value=0, max_value=400), max_size=12)


# ---------------------------------------------------------------------------------------------------------- Events


@pytest.mark.proves("G1")
def test_a_read_that_ends_inside_a_character_changes_nothing() -> None:
    data = '{"choices":[{"index":0,"delta":{"content":"k\u0131\u015f 🛰 東"}}]}'.encode()
    stream = b"data: " + data + b"\n\n"
    for place in range(len(stream) + 1):
        events, rest = read([stream[:place], stream[place:]])
        assert events == [Event(stream, "", data)]
        assert rest == Rest(b"", cut=False)
        assert "\N{REPLACEMENT CHARACTER}" not in data.decode()


@pytest.mark.proves("G2")
@pytest.mark.parametrize("end", [b"\r\n", b"\r"], ids=["CRLF", "CR"])
def test_every_line_end_reads_like_lf_wherever_the_reads_are_cut(end: bytes) -> None:
    stream = b': hb\n\ndata:{"n":1}\n\nevent: part\ndata: one\n: between\ndata: two\n\n: in\ndata:  three\n\n'
    expected = [("", None), ("", b'{"n":1}'), ("part", b"one\ntwo"), ("", b" three")]
    assert told(read([stream])[0]) == expected
    other = stream.replace(b"\n", end)
    for place in range(len(other) + 1):
        events, rest = read([other[:place], other[place:]])
        assert told(events) == expected
        assert not rest.cut


@pytest.mark.proves("G2")
def test_a_blank_line_of_a_bare_cr_is_not_waited_upon() -> None:
    reader = Events()
    assert reader.feed(b"data: a\r\n\r") == [Event(b"data: a\r\n\r", "", b"a")]
    assert reader.feed(b"\n") == []
    assert reader.feed(b"data: b\n\n") == [Event(b"\ndata: b\n\n", "", b"b")]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [("", b"a")]),
        (b"data:a\n\n", [("", b"a")]),
        (b"data:  a\n\n", [("", b" a")]),
        (b"data\n\n", [("", b"")]),
        (b"data:\n\n", [("", b"")]),
        (b"data\ndata\n\n", [("", b"\n")]),
        (b"data: a\ndata: b\n\n", [("", b"a\nb")]),
        (b"event: x\ndata: a\n\n", [("x", b"a")]),
        (b"data: a\nevent: x\nevent: y\n\n", [("y", b"a")]),
        (b"event: x\n\ndata: a\n\n", [("x", None), ("", b"a")]),
        (b"event: \xff\ndata: a\n\n", [("\N{REPLACEMENT CHARACTER}", b"a")]),
        (b"id: 1\nretry: 5\n\n", [("", None)]),
        (b": ping\n\n", [("", None)]),
        (b"\n\n\ndata: a\n\n\n\n", [("", b"a")]),
        (BOM + b"data: a\n\n", [("", b"a")]),
        (b"data: a\n\n" + BOM + b"data: b\n\n", [("", b"a"), ("", None)]),
        (b"DATA: a\ndata : b\n\n", [("", None)]),
        (b"data: a: b\n\n", [("", b"a: b")]),
        (b"data: a\x00b\x0bc\x0cd\xc2\x85e\n\n", [("", b"a\x00b\x0bc\x0cd\xc2\x85e")]),
        (b"", []),
    ],
)
def test_events_read_as_the_standard_says(stream: bytes, expected: list[tuple[str, bytes | None]]) -> None:
    assert told(read([stream])[0]) == expected
    assert told(read([bytes([byte]) for byte in stream])[0]) == expected


@given(streams, places)
@example(b"data: a\r\ndata: b\r\n\r\n", [8, 8, 9])
@example(b"data: a\r\n\r\n\ndata: b\n\n", [8, 9, 10, 11])
def test_any_cut_of_a_stream_gives_the_events_of_the_standard(stream: bytes, where: list[int]) -> None:
    assert told(read(cut(stream, where))[0]) == by_the_letter(stream)


@given(streams, places)
def test_the_raw_parts_joined_are_the_stream(stream: bytes, where: list[int]) -> None:
    events, rest = read(cut(stream, where))
    assert b"".join(event.raw for event in events) + rest.raw == stream


@given(st.lists(st.binary(max_size=8).map(lambda line: re.sub(rb"[\r\n]", b"", line)) | st.just(b"data: x") | st.just(b"")))
def test_the_three_line_ends_are_equal(lines: list[bytes]) -> None:
    lf, crlf, cr = (told(read([end.join([*lines, b""])])[0]) for end in (b"\n", b"\r\n", b"\r"))
    assert lf == crlf == cr


@pytest.mark.parametrize("tail", [b"data: b", b"data: b\n", b"event: x\n", b"d", b": hb\ndata", b"id: 4\n"])
def test_an_event_without_its_blank_line_is_reported_as_cut(tail: bytes) -> None:
    events, rest = read([b"data: a\n\n" + tail])
    assert told(events) == [("", b"a")]
    assert rest == Rest(tail, cut=True)


@pytest.mark.parametrize("tail", [b"", b"\n", b"\r\n\n", b": hb", b": hb\n", b":\r\n: x"])
def test_line_ends_and_comments_behind_the_last_event_are_no_cut(tail: bytes) -> None:
    assert read([b"data: a\n\n" + tail])[1] == Rest(tail, cut=False)


def test_a_stream_of_a_mark_alone_is_no_cut() -> None:
    assert read([BOM, b": hb"])[1] == Rest(BOM + b": hb", cut=False)


@pytest.mark.parametrize("step", [1, 7, 1000], ids=lambda step: f"reads of {step}")
def test_an_event_may_have_as_many_bytes_as_the_limit_says_and_no_more(step: int) -> None:
    reader = Events(limit=64)
    fits = b"event: x\ndata: " + b"a" * 47 + b"\n\n"
    assert len(fits) == 64
    assert told(e for i in range(0, 64, step) for e in reader.feed(fits[i : i + step])) == [("x", b"a" * 47)]
    larger = b"x" + fits
    with pytest.raises(EventTooLarge, match="64"):
        _ = [reader.feed(larger[i : i + step]) for i in range(0, 65, step)]


@pytest.mark.parametrize("tail", [b"data: " + b"b" * 99 + b"\n\n", b"data: " + b"b" * 99], ids=["whole", "unfinished"])
def test_what_came_before_an_event_too_large_is_given_first(tail: bytes) -> None:
    reader = Events(limit=50)
    assert told(reader.feed(b"data: a\n\n" + tail)) == [("", b"a")]
    for _ in range(2):
        with pytest.raises(EventTooLarge):
            reader.feed(b"data: c\n\n")
    with pytest.raises(EventTooLarge):
        reader.end()


def test_many_small_events_in_one_read_may_pass_the_limit_together() -> None:
    assert len(Events(limit=50).feed(b"data: a\n\n" * 100)) == 100


class Counted(bytearray):
    """Counts the bytes that are copied into or out of it."""

    work = 0

    def __iadd__(self, other: bytes) -> Self:
        Counted.work += len(other)
        return super().__iadd__(other)

    def __add__(self, other: bytes) -> bytearray:
        Counted.work += len(self) + len(other)
        return super().__add__(other)

    def __bytes__(self) -> bytes:
        Counted.work += len(self)
        return bytes(memoryview(self))


@pytest.mark.parametrize("kind", [Events, Records])
@pytest.mark.parametrize("line", [b"x" * MIB, b"x\ndata: " * (MIB // 8)], ids=["one line", "many lines"])
def test_reads_of_one_byte_cost_no_more_than_their_number(
    monkeypatch: pytest.MonkeyPatch, kind: Callable[[], Events | Records], line: bytes
) -> None:
    monkeypatch.setattr(Counted, "work", 0)
    monkeypatch.setattr(sse, "bytearray", Counted, raising=False)
    reader = kind()
    stream = b"data: " + line + b"\n\n"
    assert sum(len(reader.feed(stream[i : i + 1])) for i in range(len(stream))) == 1
    assert len(stream) <= Counted.work <= 6 * len(stream)


# --------------------------------------------------------------------------------------------------------- Records

VECTOR = (
    b': hb\n\ndata: {"n":1}\n\nevent: tick\n\ndata:\n\nevent: part\r\ndata: {"n":2}\r\n\r\n: in\ndata:one\ndata: two\n\n'
    b"data: [DONE]\n\ndata: rest"
)
FRAMES = [
    b'data: {"n":1}\n\n',
    b'event: part\r\ndata: {"n":2}\r\n\r\n',
    b": in\ndata:one\ndata: two\n\n",
    b"data: [DONE]\n\n",
    b"data: rest\n\n",
]


def test_the_reference_vector_of_the_daemon_protocol_reads_the_same_at_every_cut() -> None:
    for place in range(len(VECTOR) + 1):
        assert frames([VECTOR[:place], VECTOR[place:]]) == FRAMES
    assert frames(bytes([byte]) for byte in VECTOR) == FRAMES


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"", []),
        (b"data: a", [b"data: a\n\n"]),
        (b"data: a\n", [b"data: a\n\n"]),
        (b"data: a\r\n", [b"data: a\r\n\n"]),
        (b"data: a\nid: 1", [b"data: a\nid: 1\n\n"]),
        (b"data: a\n\n", [b"data: a\n\n"]),
        (b"data:", []),
        (b"data: \n\n", []),
        (b"data:  \n\n", [b"data:  \n\n"]),
        (b"data\ndata\n\n", [b"data\ndata\n\n"]),
        (b"data:\r\n\r\n", []),
        (b"data:\r", [b"data:\r\n\n"]),
        (b"data: a\rdata: b\r\r", [b"data: a\rdata: b\r\r\n\n"]),
        (b"\n\n\r\ndata: a\n\n", [b"data: a\n\n"]),
        (b": c\n\nevent: x\n\n", []),
        (b": c", []),
        (BOM + b"data: a\n\ndata: b\n\n", [b"data: b\n\n"]),
        (b"data: a\r\n\r\n", [b"data: a\r\n\r\n"]),
        (b"data: a\n: hb\ndata: b\n\n", [b"data: a\n: hb\ndata: b\n\n"]),
    ],
)
def test_records_read_as_the_daemon_protocol_says(stream: bytes, expected: list[bytes]) -> None:
    assert frames([stream]) == expected
    assert frames(bytes([byte]) for byte in stream) == expected


def by_the_contract(stream: bytes) -> list[bytes]:
    """The daemon protocol's rules, read over the whole body at once."""
    seen, raw, data = [], b"", None
    for whole in re.findall(rb"[^\n]*\n|[^\n]+$", stream):
        raw += whole
        line = whole[:-1].removesuffix(b"\r") if whole.endswith(b"\n") else whole
        if not line:
            seen += [raw] if data else []
            raw, data = b"", None
        elif line.partition(b":")[0] == b"data":
            value = line.partition(b":")[2].removeprefix(b" ")
            data = value if data is None else data + b"\n" + value
    return [*seen, raw.removesuffix(b"\n") + b"\n\n"] if data else seen


@given(streams, places)
def test_any_cut_of_a_stream_gives_the_records_of_the_contract(stream: bytes, where: list[int]) -> None:
    assert frames(cut(stream, where)) == by_the_contract(stream)


@pytest.mark.parametrize("step", [1000, 65536, 5 * MIB], ids=lambda step: f"reads of {step}")
def test_a_record_may_have_four_mib_and_no_byte_more(step: int) -> None:
    fits = b": c\ndata: " + b"a" * (4 * MIB - 12) + b"\n\n"
    assert len(fits) == 4 * MIB
    assert frames(fits[i : i + step] for i in range(0, len(fits), step)) == [fits]
    larger = b": " + fits
    with pytest.raises(EventTooLarge, match=str(4 * MIB)):
        frames(larger[i : i + step] for i in range(0, len(larger), step))


def test_a_rest_of_just_the_limit_is_still_read() -> None:
    records, events = Records(limit=7), Events(limit=7)
    assert (records.feed(b"data: a"), records.end()) == ([], b"data: a\n\n")
    assert (events.feed(b"data: a"), events.end()) == ([], Rest(b"data: a", cut=True))


def test_keepalives_do_not_add_up_to_a_record_too_large() -> None:
    reader = Records(limit=50)
    assert [record for _ in range(100) for record in reader.feed(b": hb\n\n")] == []
    assert reader.feed(b"data: a\n\n") == [b"data: a\n\n"]


@pytest.mark.parametrize("tail", [b"data: " + b"b" * 99 + b"\n\n", b"data: " + b"b" * 99], ids=["whole", "unfinished"])
def test_what_came_before_a_record_too_large_is_given_first(tail: bytes) -> None:
    reader = Records(limit=50)
    assert reader.feed(b"data: a\n\n" + tail) == [b"data: a\n\n"]
    with pytest.raises(EventTooLarge):
        reader.feed(b"data: c\n\n")
    with pytest.raises(EventTooLarge):
        reader.end()


# ---------------------------------------------------------------------------------------------------------- writer


def test_an_event_is_written_in_its_shortest_form() -> None:
    assert event(b"{}") == b"data: {}\n\n"
    assert event(b"{}", "message_stop") == b"event: message_stop\ndata: {}\n\n"
    assert event(b"a\nb") == b"data: a\ndata: b\n\n"
    assert comment("ping") == b": ping\n\n"


@given(st.binary(max_size=60), st.none() | st.text(max_size=8).filter(lambda name: not {"\r", "\n"} & set(name)))
@example(b"\n", None)
@example(b"a\r\n\r\nevent: forged", " x")
def test_what_is_written_reads_back_with_lf_for_every_line_end(data: bytes, name: str | None) -> None:
    events, rest = read([event(data, name)])
    assert told(events) == [(name or "", re.sub(rb"\r\n|\r", b"\n", data))]
    assert rest == Rest(b"", cut=False)


@pytest.mark.parametrize("name", ["a\nb", "a\r", "\n"])
def test_a_name_with_a_line_end_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="line end") as refusal:
        event(b"", name)
    assert name not in str(refusal.value)


@given(st.text(max_size=60))
@example("a\n\ndata: forged")
@example("a\r\rdata: forged")
def test_a_comment_never_becomes_an_event(text: str) -> None:
    stream = b"data: a\n\n" + comment(text) + b"data: b\n\n"
    assert told(read([stream])[0]) == [("", b"a"), ("", None), ("", b"b")]
    assert frames([stream]) == [b"data: a\n\n", b"data: b\n\n"]
