"""What a worker may say of a request, and where a redirect takes it."""

import pytest

from trunkline.host.methods._requests import HOP_BY_HOP, OURS, Request, after, first, permission, told
from trunkline_sdk.api import Fetch
from trunkline_sdk.rpc.errors import RpcError

URL = "https://api.example.com/a/b?c=d"


@pytest.mark.parametrize(
    ("url", "needs"),
    [
        ("https://api.example.com/x", "network:api.example.com:443"),
        ("http://API.example.com.:8080/x", "network:api.example.com:8080"),
        ("http://[0:0::1]/", "network:[::1]:80"),
        ("http://2852039166/", "network:2852039166:80"),
    ],
)
def test_a_url_says_which_permission_it_takes(url: str, needs: str) -> None:
    assert permission(Fetch(url=url)) == needs


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/x",
        "ftp://api.example.com/",
        "http://user:canary@api.example.com/",
        "http://a b/",
        "file:///etc/passwd",
        "http://ex\u00e4mple.com/",
        "http://api..example.com/",
        f"http://{'a' * 64}.example.com/",
        "http://./",
        "http://api.example.com\\@evil.net/",
        "http://api.example.com:80:80/",
        "http://[::ffff:127.0.0.1%25eth0]/",
        f"http://api.example.com/{'canary' * 2000}",
    ],
)
def test_a_url_that_is_none_is_refused_without_its_text(url: str) -> None:
    with pytest.raises(RpcError) as refused:
        permission(Fetch(url=url))
    assert (refused.value.code, "canary" in refused.value.message) == ("invalid_params", False)


@pytest.mark.proves("host.requests")
@pytest.mark.parametrize("name", sorted(OURS | HOP_BY_HOP))
def test_headers_of_the_connection_and_the_hosts_own_are_refused_in_any_spelling(name: str) -> None:
    with pytest.raises(RpcError) as refused:
        first(Fetch(url=URL, headers=(("accept", "x"), (name.title(), "x"))), "agent")
    assert (refused.value.code, name in refused.value.message) == ("invalid_params", True)


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "TRACK", "get", "GE T", "", "G\r\nX"])
def test_a_method_that_makes_a_tunnel_or_is_none_is_refused(method: str) -> None:
    with pytest.raises(RpcError):
        first(Fetch(url=URL, method=method), "agent")


def test_too_many_headers_and_letters_that_no_header_has_are_refused() -> None:
    for headers, code in (
        ((("a", "x" * 40_000),), "payload_too_large"),
        ((("a", "\u20ac"),), "invalid_params"),
        ((("\u00e4", "x"),), "invalid_params"),
        ((("x" * 257, "x"),), "invalid_params"),
        ((("\u212aeep-alive", "x"),), "invalid_params"),
    ):
        with pytest.raises(RpcError) as refused:
            first(Fetch(url=URL, headers=headers), "agent")
        assert refused.value.code == code
    with pytest.raises(RpcError):
        first(Fetch(url=URL, body=b"x", upload=1), "agent")


def test_an_agent_of_its_own_is_kept() -> None:
    assert first(Fetch(url=URL), "agent").headers == ((b"user-agent", b"agent"),)
    assert first(Fetch(url=URL, headers=(("User-Agent", "mine"),)), "agent").headers == ((b"user-agent", b"mine"),)


POST = Request("POST", URL, ((b"authorization", b"canary"), (b"content-type", b"a/b"), (b"accept", b"c")), b"body")


@pytest.mark.proves("host.redirects")
@pytest.mark.parametrize(
    ("status", "method", "becomes"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (301, "PUT", "PUT"),
        (303, "HEAD", "HEAD"),
        (307, "POST", "POST"),
        (308, "DELETE", "DELETE"),
    ],
)
def test_a_redirect_changes_the_method_as_browsers_do(status: int, method: str, becomes: str) -> None:
    following = after(Request(method, URL, POST.headers, b"body"), status, [(b"Location", b"../x?y#z")])
    assert following is not None
    assert (following.method, following.url) == (becomes, "https://api.example.com/x?y")
    kept = b"body" if becomes == method else b""
    assert following.body == kept
    assert ((b"content-type", b"a/b") in following.headers) is bool(kept)
    assert (b"authorization", b"canary") in following.headers


@pytest.mark.proves("host.redirects")
@pytest.mark.parametrize("location", [b"https://other.example.com/", b"https://api.example.com:8443/", b"//evil.net/"])
def test_nothing_that_may_be_a_credential_goes_to_another_origin(location: bytes) -> None:
    request = Request("POST", URL, (*POST.headers, (b"cookie", b"canary"), (b"x-api-key", b"canary"), (b"x-anything", b"canary")), b"body")
    following = after(request, 307, [(b"location", location)])
    assert following is not None
    assert following.headers == ((b"content-type", b"a/b"), (b"accept", b"c"))


@pytest.mark.proves("host.redirects")
@pytest.mark.parametrize(
    ("location", "body", "reason"),
    [
        (b"http://api.example.com/", b"", "insecure_redirect"),
        (b"file:///etc/passwd", b"", "invalid_redirect"),
        (b"https://u:p@api.example.com/", b"", "invalid_redirect"),
        (b"https://[::1/", b"", "invalid_redirect"),
        (b"gopher://api.example.com/", b"", "invalid_redirect"),
        (b"https://api..example.com/", b"", "invalid_redirect"),
        (b"/" + b"x" * 9000, b"", "invalid_redirect"),
        (b"/x", None, "unrepeatable_redirect"),
    ],
)
def test_a_redirect_that_cannot_be_followed_is_an_error(location: bytes, body: bytes | None, reason: str) -> None:
    with pytest.raises(RpcError) as refused:
        after(Request("PUT", URL, (), body), 307, [(b"location", location)])
    assert (refused.value.code, refused.value.details) == ("failed", {"reason": reason})


def test_what_is_no_redirect_leads_nowhere_and_odd_letters_are_encoded() -> None:
    assert after(POST, 200, [(b"location", b"/x")]) is None
    assert after(POST, 304, [(b"location", b"/x")]) is None
    assert after(POST, 302, [(b"content-type", b"a/b")]) is None
    following = after(POST, 302, [(b"location", "/\u00e4 b?q=%20".encode())])
    assert following is not None
    assert following.url == "https://api.example.com/%C3%A4%20b?q=%20"


def test_a_worker_is_told_the_headers_but_those_of_the_connection() -> None:
    assert told([(b"Set-Cookie", b"a"), (b"Connection", b"close"), (b"Transfer-Encoding", b"chunked"), (b"X-\xe4", b"\xe4")]) == (
        ("set-cookie", "a"),
        ("x-\u00e4", "\u00e4"),
    )
