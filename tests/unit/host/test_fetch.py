"""`network.fetch`, from a worker's call to the fake internet and back."""

import asyncio
import base64
import gzip
import ssl
from typing import Any

import pytest
import trustme

from tests.fakes.upstream import NEVER, Upstream
from tests.fakes.worker import PATIENCE, Ground, Meeting
from trunkline.host.methods import network
from trunkline_sdk.http1 import tls_context
from trunkline_sdk.rpc.errors import RpcError

URL = "http://api.example.com/forecast?at=here"


async def refused(met: Meeting, **fetch: Any) -> RpcError:
    with pytest.raises(RpcError) as error:
        await met.asks("network.fetch", {"url": URL, **fetch})
    return error.value


def body(fetched: Any) -> bytes:
    return base64.b64decode(fetched["body"])


@pytest.mark.proves("host.network")
async def test_a_granted_host_is_asked_and_its_answer_comes_back_to_the_byte(ground: Ground, internet: Upstream, met: Meeting) -> None:
    data = bytes(range(256)) * 20
    internet.answers(207, data, headers=[("X-Kind", "odd"), ("x-kind", "even")])
    sent = bytes(reversed(range(256)))
    asked = {
        "url": URL,
        "method": "PROPFIND",
        "headers": [["Authorization", "Bearer t"], ["depth", "1"]],
        "body": base64.b64encode(sent).decode(),
    }
    fetched = await met.asks("network.fetch", asked)
    assert (fetched["url"], fetched["status"], body(fetched)) == (URL, 207, data)
    assert [value for name, value in fetched["headers"] if name == "x-kind"] == ["odd", "even"]
    (call,) = internet.calls
    assert (call.method, call.path, call.body) == ("PROPFIND", "/forecast?at=here", sent)
    assert [call.header(name) for name in ("host", "authorization", "depth", "user-agent")] == [
        "api.example.com",
        "Bearer t",
        "1",
        "trunkline",
    ]
    assert ground.internet.reached == [("8.8.8.8", 80)]


@pytest.mark.proves("host.network")
@pytest.mark.parametrize(
    "url",
    ["http://other.example.com/", "http://api.example.com.evil.net/", "http://cdn.example.com/", "http://8.8.8.8/", "http://localhost/"],
)
async def test_another_host_is_refused_before_its_name_is_asked_for(ground: Ground, internet: Upstream, met: Meeting, url: str) -> None:
    error = await refused(met, url=url)
    assert error.code == "permission_denied"
    assert error.details["permission"].startswith("network:")
    assert (ground.internet.asked, ground.internet.reached, internet.connections) == ([], [], 0)


@pytest.mark.proves("host.addresses")
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://10.0.0.1/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://inside.example.com/",
    ],
)
async def test_every_host_is_not_every_address(ground: Ground, url: str) -> None:
    ground.internet.names["inside.example.com"] = [["192.168.1.1", "169.254.169.254"]]
    async with ground.meet("curious", ["network:*"]) as met:
        error = await refused(met, url=url)
    assert (error.code, error.details) == ("permission_denied", {"reason": "address"})
    assert error.message.endswith("The operator can name it, as a number, in the extension's `network`.")
    assert ground.internet.reached == []


@pytest.mark.proves("host.addresses")
async def test_a_name_that_changes_is_judged_anew_and_the_judged_address_is_the_one_that_is_asked(
    ground: Ground, internet: Upstream, met: Meeting
) -> None:
    ground.internet.names["api.example.com"] = [["8.8.8.8"], ["127.0.0.1"], ["10.0.0.1", "8.8.8.8"]]
    close = [("connection", "close")]
    internet.answers(200, b"first", headers=close)
    internet.answers(200, b"third", headers=close)
    assert body(await met.asks("network.fetch", {"url": URL})) == b"first"
    await internet.idle()
    assert (await refused(met)).details == {"reason": "address"}
    assert body(await met.asks("network.fetch", {"url": URL})) == b"third"
    assert ground.internet.reached == [("8.8.8.8", 80)] * 2


@pytest.mark.proves("host.addresses")
async def test_the_operators_file_opens_an_address_for_its_extension_and_for_no_other(ground: Ground, internet: Upstream) -> None:
    ground.internet.put("nas.example.com", "192.168.1.5", internet.base_url)
    internet.answers(200, b"inside", times=2)
    async with (
        ground.meet("trusted", ["network:nas.example.com"], operator=["network:192.168.1.5:80"]) as trusted,
        ground.meet("curious", ["network:*", "network:192.168.1.5"]) as curious,
    ):
        assert body(await trusted.asks("network.fetch", {"url": "http://nas.example.com/"})) == b"inside"
        assert body(await trusted.asks("network.fetch", {"url": "http://192.168.1.5/"})) == b"inside"
        for url in ("http://nas.example.com/", "http://192.168.1.5/"):  # a connection is open, and is not lent
            assert (await refused(curious, url=url)).code == "permission_denied"
        assert (await refused(trusted, url="http://nas.example.com:81/")).code == "permission_denied"
    assert len(internet.calls) == 2


@pytest.mark.proves("host.redirects")
async def test_a_redirect_within_the_grants_is_followed_and_the_last_place_is_told(
    ground: Ground, internet: Upstream, met: Meeting
) -> None:
    ground.internet.put("a.cdn.example.com", "8.8.4.4", internet.base_url)
    internet.answers(302, headers=[("location", "/second")])
    internet.answers(307, headers=[("location", "http://a.cdn.example.com/third#part")])
    internet.answers(200, b"here")
    fetched = await met.asks(
        "network.fetch", {"url": URL, "headers": [["authorization", "canary"], ["x-key", "canary"], ["accept", "a/b"]]}
    )
    assert (fetched["url"], body(fetched)) == ("http://a.cdn.example.com/third", b"here")
    assert [call.header("authorization") for call in internet.calls] == ["canary", "canary", None]
    assert [call.header("x-key") for call in internet.calls] == ["canary", "canary", None]
    assert [call.header("accept") for call in internet.calls] == ["a/b"] * 3


@pytest.mark.proves("host.redirects")
@pytest.mark.parametrize("leads", ["http://evil.example.net/", "http://127.0.0.1/", "http://169.254.169.254/latest", "//cdn.example.com/"])
@pytest.mark.parametrize("method", ["network.fetch", "network.stream"])
async def test_a_redirect_out_of_the_grants_is_refused(ground: Ground, internet: Upstream, met: Meeting, leads: str, method: str) -> None:
    ground.internet.put("evil.example.net", "8.8.4.4", internet.base_url)
    internet.answers(302, b"body", headers=[("location", leads)])
    with pytest.raises(RpcError) as error:
        await met.asks(method, {"url": URL})
    assert error.value.code == "permission_denied"
    assert error.value.details["permission"].startswith("network:")
    assert ground.internet.reached == [("8.8.8.8", 80)]
    assert len(internet.calls) == 1


@pytest.mark.proves("host.redirects")
async def test_a_granted_name_that_redirects_to_a_granted_name_inside_is_refused_at_its_address(
    ground: Ground, internet: Upstream, met: Meeting
) -> None:
    ground.internet.names["a.cdn.example.com"] = [["10.0.0.1"]]
    internet.answers(302, headers=[("location", "http://a.cdn.example.com/")])
    assert (await refused(met)).details == {"reason": "address"}
    assert ground.internet.reached == [("8.8.8.8", 80)]


@pytest.mark.proves("host.redirects")
async def test_the_sixth_redirect_is_one_too_many(internet: Upstream, met: Meeting) -> None:
    internet.answers(302, headers=[("location", "/again")], times=6)
    assert (await refused(met)).details == {"reason": "too_many_redirects"}
    assert len(internet.calls) == 6
    internet.answers(302, headers=[("location", "/again")], times=5)
    internet.answers(200, b"there")
    assert body(await met.asks("network.fetch", {"url": URL})) == b"there"


async def test_a_redirect_is_handed_over_or_an_error_where_that_is_wanted(internet: Upstream, met: Meeting) -> None:
    internet.answers(302, b"moved", headers=[("location", "http://evil.example.net/")], times=2)
    fetched = await met.asks("network.fetch", {"url": URL, "redirect": "manual"})
    assert (fetched["status"], dict(fetched["headers"])["location"], body(fetched)) == (302, "http://evil.example.net/", b"moved")
    assert (await refused(met, redirect="error")).details == {"reason": "redirect", "status": 302}


@pytest.mark.proves("host.limits")
async def test_an_answer_that_is_too_large_is_an_error_folded_or_not(internet: Upstream, met: Meeting) -> None:
    size = network.MOST_ANSWER
    internet.answers(200, b"x" * size)
    internet.answers(200, b"x" * (size + 1))
    internet.answers(200, gzip.compress(b"x" * (size + 1)), headers=[("content-encoding", "gzip")])
    internet.answers(200, gzip.compress(b"well"), headers=[("content-encoding", "gzip")])
    assert body(await met.asks("network.fetch", {"url": URL})) == b"x" * size
    for _ in range(2):
        assert (await refused(met)).code == "payload_too_large"
    assert body(await met.asks("network.fetch", {"url": URL})) == b"well"


@pytest.mark.proves("host.limits")
async def test_an_upload_comes_as_a_stream_and_is_bounded(internet: Upstream, met: Meeting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MOST_UPLOAD", 1 << 20)
    internet.answers(200, b"taken", times=None)

    async def upload(size: int) -> Any:
        stream = met.worker.open_stream()

        async def send() -> None:
            async with stream:
                await stream.send(b"u" * size)

        sending = asyncio.create_task(send())
        try:
            return await met.asks("network.fetch", {"url": URL, "method": "PUT", "upload": stream.number})
        finally:
            await asyncio.gather(sending, return_exceptions=True)

    assert body(await upload(1 << 20)) == b"taken"
    assert internet.calls[0].body == b"u" * (1 << 20)
    with pytest.raises(RpcError) as error:
        await upload((1 << 20) + 1)
    assert error.value.code == "payload_too_large"
    assert (await refused(met, upload=77)).code == "invalid_params"
    internet.violations.clear()  # the second upload broke off


@pytest.mark.proves("host.limits")
async def test_a_call_that_is_over_time_closes_the_socket(internet: Upstream, met: Meeting) -> None:
    internet.hangs()
    with pytest.raises(RpcError) as late:
        await met.worker.call("network.fetch", {"url": URL}, seconds=0.5)
    assert late.value.code == "deadline_exceeded"
    await internet.disconnected()


@pytest.mark.proves("host.limits")
async def test_a_worker_that_cancels_or_is_gone_closes_the_socket(ground: Ground, internet: Upstream) -> None:
    internet.hangs(times=2)
    async with ground.meet("weather", ["network:*"]) as met:
        asking = asyncio.create_task(met.asks("network.fetch", {"url": URL}))
        await internet.called()
        asking.cancel()
        await internet.disconnected()
        asking = asyncio.create_task(met.asks("network.fetch", {"url": URL}))
        await internet.called(2)
        met.worker.close()
        await internet.disconnected(count=2)
        with pytest.raises(RpcError):
            await asking


@pytest.mark.proves("host.network")
async def test_what_goes_wrong_is_told_in_codes_and_without_the_url(ground: Ground, internet: Upstream, met: Meeting) -> None:
    internet.drops()
    internet.raw(b"nonsense\r\n\r\n")
    internet.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort")
    internet.answers(200, b"x", headers=[("content-encoding", "zip")])
    told = [await refused(met, url=f"{URL}&key=canary", method="POST") for _ in range(4)]
    assert [error.details["reason"] for error in told] == ["connection_lost", "garbled", "body_cut", "undecodable_body"]
    assert {error.code for error in told} == {"failed"}
    assert not any("canary" in error.message or error.retryable for error in told)
    internet.drops(times=2)  # a connection that was kept is replaced once
    assert (await refused(met)).retryable is True  # a GET may be asked again
    internet.stop()
    error = await refused(met, method="POST")
    assert (error.details, error.retryable) == ({"reason": "connect_failed"}, True)


@pytest.mark.proves("host.network")
async def test_a_certificate_is_held_to_the_name_that_was_granted_whatever_the_address(ground: Ground) -> None:
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tls_context()
    authority.issue_cert("api.example.com").configure_cert(server)
    authority.configure_trust(client)
    ground.broker = ground.make(tls=client)
    async with Upstream(tls=server) as secure, ground.meet("weather", ["network:*"]) as met:
        ground.internet.put("api.example.com", "8.8.8.8", secure.base_url)
        ground.internet.put("other.example.com", "8.8.8.8", secure.base_url)
        secure.answers(200, b"secret")
        assert body(await met.asks("network.fetch", {"url": "https://api.example.com/"})) == b"secret"
        assert (await refused(met, url="https://other.example.com/")).details == {"reason": "certificate_rejected"}
    assert ground.internet.reached == [("8.8.8.8", 443)] * 2


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"url": 7},
        {"url": URL, "headers": [["a"]]},
        {"url": URL, "headers": [["a", "b"]] * 101},
        {"url": URL, "body": "not base64!"},
        [1],
        "x",
    ],
)
async def test_params_that_do_not_fit_are_refused(met: Meeting, params: object) -> None:
    with pytest.raises(RpcError) as error:
        await met.asks("network.fetch", params)
    assert error.value.code == "invalid_params"


async def test_a_header_with_a_line_break_is_refused(internet: Upstream, met: Meeting) -> None:
    error = await refused(met, headers=[["x-a", "b\r\nhost: evil"]])
    assert (error.code, "evil" in error.message) == ("invalid_params", False)
    assert internet.calls == []


@pytest.mark.proves("host.network")
async def test_nothing_is_left_when_a_worker_has_gone(ground: Ground, internet: Upstream) -> None:
    internet.answers(200, b"kept alive")
    internet.streams([b"begun", NEVER])
    async with ground.meet("weather", ["network:*"]) as met:
        await met.asks("network.fetch", {"url": URL})
        await met.asks("network.stream", {"url": URL})
        assert internet.open == 1
    await asyncio.wait_for(internet.idle(), PATIENCE)
