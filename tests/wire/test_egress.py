"""An address that no provider has is refused when it is dialled, in whatever form it is written, and no redirect is followed."""

import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trustme

from tests.fakes.upstream import Upstream
from tests.wire.gateway import Gateway
from tests.wire.sides import CHAT, MESSAGES, Side

FORMS = [
    "http://169.254.169.254",
    "http://169.254.169.254:{port}/latest/meta-data",
    "https://169.254.169.254",
    "http://2852039166",
    "http://0xa9fea9fe",
    "http://0251.0376.0251.0376",
    "http://169.254.43518",
    "http://[::ffff:169.254.169.254]",
    "http://[::ffff:127.0.0.1]:{port}",
    "http://[::ffff:7f00:1]:{port}",
    "http://[::127.0.0.1]:{port}",
    "http://[64:ff9b::7f00:1]:{port}",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
    "http://[2001::1]:{port}",
    "http://[2002:7f00:1::]:{port}",
    "http://[fe80::1]:{port}",
    "http://[fd00:ec2::254]",
    "http://0.0.0.0:{port}",
    "http://0:{port}",
    "http://[::]:{port}",
    "http://224.0.0.1:{port}",
    "http://255.255.255.255",
]


@pytest.fixture
async def impostor() -> AsyncIterator[Upstream]:
    """A provider with a certificate that nobody vouches for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with Upstream(tls=context) as upstream:
        yield upstream


@pytest.fixture
def config(config: dict[str, Any], upstreams: dict[str, Upstream], impostor: Upstream) -> dict[str, Any]:
    """A provider and a route for each form and dialect, besides the ordinary ones."""
    port = upstreams["openai"].base_url.rpartition(":")[2]
    addresses = {f"form{number}": form.format(port=port) for number, form in enumerate(FORMS)} | {"impostor": impostor.base_url}
    for label, address in addresses.items():
        for kind, second in (("openai", "home"), ("anthropic", "spare")):
            name = f"{label}-{kind}"
            config["providers"][name] = config["providers"][kind] | {"base_url": address, "models": []}
            config["routes"][name] = {"targets": [{"model": f"{name}/m"}, {"model": f"{second}/m", "order": 1}]}
    return config


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.proves("G20")
async def test_forbidden_addresses_are_refused_in_every_form(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, stream: bool
) -> None:
    for number, form in enumerate(FORMS):
        got = await gateway.ask(side, model=f"form{number}-{side.first}/m", stream=stream)
        assert (got.status, side.error(got.json())[1]) == (503, "egress_denied"), form
        assert (await gateway.told())["outcome"] == "egress_denied"
    assert [name for name, upstream in upstreams.items() if upstream.connections] == []


@pytest.mark.proves("G20", "failover")
async def test_the_next_target_of_a_route_takes_over(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    upstreams[side.second].says("here I am")
    assert (await gateway.ask(side, model=f"form0-{side.first}")).status == 200


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("where", ["http://169.254.169.254/", "{other}/v1/chat/completions", "/v1/elsewhere", "//127.0.0.1/"])
@pytest.mark.proves("G20")
async def test_a_redirect_is_refused_and_not_followed(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, where: str, stream: bool
) -> None:
    first, other = upstreams[side.first], upstreams[side.second]
    for status in (301, 302, 303, 307, 308):
        first.answers(status, b"moved", headers=[("location", where.format(other=other.base_url))])
        got = await gateway.ask(side, stream=stream)
        assert (got.status, side.error(got.json())[1]) == (503, "egress_denied")
        assert "location" not in got.headers
    assert len(first.calls) == 5
    assert other.connections == 0


@pytest.mark.config(egress={"allow": ["169.254.0.0/16"]}, providers={"openai": {"base_url": "http://127.0.0.1:1/v1"}})
@pytest.mark.proves("G20")
async def test_what_the_operator_allows_opens_nothing_else(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    for form in ("http://[::ffff:127.0.0.1]:{port}", "http://[::ffff:169.254.169.254]", "http://0.0.0.0:{port}"):
        for side in (CHAT, MESSAGES):
            got = await gateway.ask(side, model=f"form{FORMS.index(form)}-{side.first}/m")
            assert side.error(got.json())[1] == "egress_denied"
    assert upstreams["openai"].connections == 0


@pytest.mark.proves("G20", "failover")
async def test_a_provider_with_a_wrong_certificate_gets_nothing(
    gateway: Gateway, upstreams: dict[str, Upstream], impostor: Upstream, side: Side
) -> None:
    upstreams[side.second].says("here I am")
    assert (await gateway.ask(side, model=f"impostor-{side.first}")).status == 200
    got = await gateway.ask(side, model=f"impostor-{side.first}/m")
    assert (got.status, side.error(got.json())[1]) == (502, "upstream_down")
    assert "certificate" in side.error(got.json())[2]
    assert impostor.calls == []
