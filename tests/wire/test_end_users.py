"""For whom a call is: whoever has the key, or whom the request names."""

from typing import Any

import pytest

from tests.fakes.upstream import Upstream
from tests.wire.gateway import Gateway
from tests.wire.sides import Side


def naming(side: Side, user: str) -> dict[str, Any]:
    """How a dialect's own clients name an end user."""
    return {"metadata": {"user_id": user}} if side.dialect == "anthropic" else {"user": user}


@pytest.mark.proves("end-users")
async def test_the_body_names_nobody_unless_the_key_says_so(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    upstreams[side.first].says("hello")
    assert (await gateway.ask(side, **naming(side, "u1"))).status == 200
    line = await gateway.told()
    assert line["client_user"] == "u1"
    assert not {"end_user", "user"} & line.keys()


@pytest.mark.proves("end-users")
async def test_a_key_that_acts_for_end_users_calls_for_whom_the_request_names(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    ada = gateway.users.create("ada", external_id="u1").id
    row, gateway.key = gateway.makes(end_users="request")
    for headers, fields in (([], naming(side, "u1")), ([("x-trunkline-user", "u1")], naming(side, "somebody else"))):
        upstreams[side.first].says("hello")
        assert (await gateway.ask(side, headers=headers, **fields)).status == 200
        line = await gateway.told()
        assert (line["end_user"], line["user"], line["key"], line["account"]) == ("u1", ada, row.id, "acc_default")
        assert b"x-trunkline-user" not in {name.lower() for name, _ in upstreams[side.first].calls[-1].headers}


@pytest.mark.proves("end-users")
async def test_an_unknown_end_user_is_refused(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    _, gateway.key = gateway.makes(end_users="request")
    got = await gateway.ask(side, **naming(side, "u1"))
    assert got.status == 403
    assert "`u1`" in side.error(got.json())[2]
    assert (await gateway.told())["end_user"] == "u1"
    assert upstreams[side.first].calls == []


@pytest.mark.proves("end-users")
@pytest.mark.config(accounts={"unknown_end_users": "create"})
async def test_an_unknown_end_user_is_made_where_the_configuration_says_so(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    _, gateway.key = gateway.makes(end_users="request")
    line: dict[str, Any] = {}
    while "user" not in line:  # which is so when they have been made
        upstreams[side.first].says("hello")
        assert (await gateway.ask(side, **naming(side, "u1"))).status == 200
        line = await gateway.told()
        assert line["end_user"] == "u1"
    [made] = [user for user in gateway.users.list() if user.external_id == "u1"]
    assert line["user"] == made.id
