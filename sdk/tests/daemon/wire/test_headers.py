"""What stands in headers: credentials, losses, the timeout, the secret."""

import base64
import json
import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline_sdk.daemon.messages import Credential, Loss, Record
from trunkline_sdk.daemon.protocol import headers, timeouts
from trunkline_sdk.daemon.protocol.headers import BadHeader

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs"]), max_size=12)
losses = st.lists(
    st.builds(Loss, path=words, change=words, severity=st.sampled_from(["material", "advisory", "?"]), detail=words), max_size=9
)


def sent(credential: Credential | None) -> dict[str, str]:
    return {name.decode(): raw.decode() for name, raw in headers.credential(credential)}


def came(**fields: str) -> Credential | None:
    return headers.read_credential([(f"X-Credential-{name.replace('_', '-')}".encode(), raw.encode()) for name, raw in fields.items()])


def test_no_credential_sets_nothing() -> None:
    """I.5"""
    assert sent(None) == sent(Credential()) == {}
    assert headers.read_credential([(b"x-model", b"m")]) is None
    assert came(Metadata=base64.b64encode(b"{}").decode()) is None
    assert came(Metadata="%%%") is None


def test_an_api_key_gets_its_type_and_comes_back_as_a_key_only() -> None:
    """I.5"""
    assert sent(Credential(api_key="k")) == {"x-credential-token": "k", "x-credential-token-type": "api_key"}
    assert came(Token="k", Token_Type="api_key") == Credential(api_key="k", token_type="api_key")


def test_a_pasted_token_comes_back_as_a_token_only() -> None:
    """I.5"""
    assert sent(Credential(token="t", token_type="custom")) == {"x-credential-token": "t", "x-credential-token-type": "custom"}
    assert came(Token="t", Token_Type="custom") == Credential(token="t", token_type="custom")
    assert came(Token="t") == Credential(token="t")


def test_a_key_beside_a_token_stays_at_home() -> None:
    assert sent(Credential(token="t", api_key="k", token_type="api_key")) == {
        "x-credential-token": "t",
        "x-credential-token-type": "api_key",
    }


def test_a_type_without_a_token_is_a_credential() -> None:
    """I.5"""
    assert came(Token_Type="Bearer") == Credential(token_type="Bearer")
    assert sent(Credential(token_type="Bearer")) == {"x-credential-token-type": "Bearer"}


@pytest.mark.parametrize("bad", ["%%%", "bm90IGpzb24=", "e30", "W10=", base64.b64encode(b'{"a":1}').decode()])
def test_metadata_that_cannot_be_read_is_ignored(bad: str) -> None:
    """I.5"""
    assert came(Token="t", Metadata=bad) == Credential(token="t")


def test_metadata_is_compact_sorted_escaped_json() -> None:
    """I.5"""
    raw = base64.b64decode(sent(Credential(metadata={"b": "<x>&", "a": "ü\u2028"}))["x-credential-metadata"])
    assert raw == r'{"a":"ü\u2028","b":"\u003cx\u003e\u0026"}'.encode()


@given(words, words, words, st.dictionaries(words, words, max_size=3))
def test_a_credential_comes_back(token: str, account: str, kind: str, metadata: dict[str, str]) -> None:
    """I.4, I.5"""
    given = Credential(token=token, account_id=account, token_type=kind, metadata=metadata)
    back = headers.read_credential(headers.credential(given))
    if kind == "api_key":
        given = Credential(api_key=token, account_id=account, token_type=kind, metadata=metadata)
    assert back == (None if given == Credential() else given)


def test_text_beyond_ascii_is_utf_8_bytes() -> None:
    assert headers.credential(Credential(account_id="ä€")) == [(b"x-credential-account-id", "ä€".encode())]
    assert headers.text("modél".encode()) == "modél"
    assert headers.text(b"mod\xe9l") == "modél"


@pytest.mark.parametrize("bad", ["a\r\nx: 1", "a\n", "a\0", "a\x7f", "\x1b[0m", "\ud800"])
def test_a_value_that_no_header_can_hold_is_named_and_not_shown(bad: str) -> None:
    with pytest.raises(BadHeader, match="x-credential-token") as refusal:
        headers.credential(Credential(token="canary" + bad))
    assert "canary" not in str(refusal.value)


def test_white_space_around_a_value_is_cut() -> None:
    assert sent(Credential(token="  t\t ")) == {"x-credential-token": "t"}
    assert headers.authorization("  s ") == [(b"authorization", b"Bearer s")]
    assert headers.authorization(" ") == []


def test_a_credential_is_the_part_of_a_record_that_may_travel() -> None:
    record = Record(access_token="a", refresh_token="r", id_token="i", token_type="api_key", account_id="acc", metadata={"k": "v"})
    assert Credential.of(record) == Credential(api_key="a", account_id="acc", token_type="api_key", metadata={"k": "v"})
    bearer = Credential.of(Record(access_token="a", token_type="Bearer", metadata=record.metadata))
    assert bearer == Credential(token="a", token_type="Bearer", metadata={"k": "v"})
    assert bearer.metadata is not record.metadata


@given(losses)
def test_losses_come_back_sorted_and_once(given: list[Loss]) -> None:
    """I.4"""
    written = headers.losses([*given, *given])
    assert headers.read_losses(written) == headers.report(given)
    assert bool(written) == bool(given)


def test_a_loss_has_four_keys_in_go_s_order() -> None:
    ((name, raw),) = headers.losses([Loss(path="messages.0.name", change="dropped", severity="advisory", detail="not carried")])
    assert name == b"x-losses"
    assert base64.b64decode(raw) == b'[{"path":"messages.0.name","class":"dropped","severity":"advisory","detail":"not carried"}]'


@pytest.mark.parametrize("bad", [b"%%%", base64.b64encode(b"[{"), base64.b64encode(b'{"path":1}'), b""])
def test_losses_that_cannot_be_read_are_none(bad: bytes) -> None:
    """I.17"""
    assert headers.read_losses([(b"X-Losses", bad)]) == ()
    assert headers.losses([]) == []


def test_unknown_kinds_of_losses_are_kept() -> None:
    raw = base64.b64encode(json.dumps([{"path": "a", "class": "mangled", "severity": "grave"}]).encode())
    assert headers.read_losses([(b"X-LOSSES", raw)]) == (Loss(path="a", change="mangled", severity="grave"),)


@pytest.mark.parametrize("count", [1, 2, 40, 41, 500, 5000])
def test_losses_that_are_too_many_end_in_one_that_says_so(count: int) -> None:
    given = [
        Loss(path=f"p.{n}", change="dropped", severity="material" if n % 100 == 0 else "advisory", detail="d" * 100) for n in range(count)
    ]
    ((_, raw),) = headers.losses(given)
    told = headers.read_losses([(b"x-losses", raw)])
    assert len(raw) <= headers.LOSSES_BYTES
    assert len(told) == count or (told[-1].path, told[-1].detail) == ("**", f"{count - len(told) + 1} more")
    material = [loss for loss in told if loss.severity == "material"]
    assert len(material) == min(len([loss for loss in given if loss.severity == "material"]), max(len(told) - 1, 1))


def test_a_single_loss_that_is_too_large_still_says_that_there_is_one() -> None:
    told = headers.read_losses(headers.losses([Loss(path="p", detail="d" * 9000)]))
    assert [loss.path for loss in told] == ["**"]


@pytest.mark.parametrize(
    ("seconds", "raw"),
    [(90.5, b"90.5"), (300, b"300"), (420.0, b"420"), (0.001, b"0.001"), (1e-7, b"0.0000001"), (1e17, b"100000000000000000")],
)
def test_a_timeout_is_a_plain_decimal(seconds: float, raw: bytes) -> None:
    """I.19"""
    assert timeouts.write(seconds) == raw


@pytest.mark.parametrize("seconds", [None, 0, -1.0, math.inf, math.nan, -math.inf])
def test_no_wait_has_no_header(seconds: float | None) -> None:
    """I.19"""
    assert timeouts.write(seconds) is None


@pytest.mark.parametrize(
    "raw", [None, b"", b"0", b"0.0", b"-1", b"+1", b"1e3", b"90s", b".5", b"5.", b" 5", b"1_0", b"inf", "٣".encode(), b"5\n"]
)
def test_a_timeout_that_cannot_be_read_is_none(raw: bytes | None) -> None:
    """I.19"""
    assert timeouts.read(raw) is None


@given(st.floats(min_value=1e-30, max_value=1e9))
def test_a_timeout_comes_back(seconds: float) -> None:
    raw = timeouts.write(seconds)
    assert raw is not None
    assert Decimal(raw.decode()) == Decimal(repr(seconds))
    assert timeouts.read(raw, ceiling=math.inf) == seconds
    assert timeouts.read(raw, ceiling=60.0) == min(seconds, 60.0)


def test_a_daemon_s_own_401_is_told_by_its_challenge() -> None:
    challenge = [(b"WWW-Authenticate", headers.CHALLENGE)]
    assert headers.is_wrong_secret(401, challenge)
    assert not headers.is_wrong_secret(403, challenge)
    assert not headers.is_wrong_secret(401, [(b"www-authenticate", b'Bearer realm="upstream"')])
    assert not headers.is_wrong_secret(401, [])
