from trunkline.server.cors import Cors

PAGE = b"https://chat.example"


def test_without_a_list_no_page_may_call() -> None:
    assert Cors([]).headers(PAGE) == []
    assert Cors([]).preflight(PAGE) == []


def test_a_page_on_the_list_may_call_and_read_the_answer() -> None:
    head = dict(Cors([PAGE.decode()]).headers(PAGE))
    assert head[b"access-control-allow-origin"] == PAGE
    assert head[b"vary"] == b"origin"
    assert b"access-control-allow-credentials" not in head


def test_a_preflight_allows_what_the_vendors_sdks_send_from_a_browser() -> None:
    head = dict(Cors([PAGE.decode()]).preflight(PAGE))
    assert b"POST" in head[b"access-control-allow-methods"]
    allowed = head[b"access-control-allow-headers"].replace(b" ", b"").split(b",")
    assert b"authorization" in allowed, "the asterisk does not stand for it"
    assert b"*" in allowed, "x-stainless-lang and a dozen others"


def test_other_pages_may_not() -> None:
    cors = Cors([PAGE.decode()])
    for origin in [None, b"", b"null", b"https://chat.example.evil.test", b"http://chat.example", b"https://chat.example:8443", b"*"]:
        assert cors.headers(origin) == []
        assert cors.preflight(origin) == []
