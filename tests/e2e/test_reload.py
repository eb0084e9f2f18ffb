"""A new configuration is for new requests; those in flight do not notice."""

import asyncio
import io
import json
import signal
import threading
from pathlib import Path

import pytest

from tests.fakes.daemon import FakeDaemon
from tests.fakes.server import PATIENCE, Peer, Provider, Server, trunkline
from trunkline.app.config import Config, read
from trunkline.app.lifecycle import Installation, installed
from trunkline.base.log import LogSettings, open_log
from trunkline.errors import ConfigInvalid
from trunkline.gateway.exchange import Exchange

PARTS = [b'data: {"choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n' % number for number in range(50)]
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
ECHO = '[providers.echo]\nkind = "echo"\nmodels = [{models}]\n'
CALL = {"model": "echo", "messages": [{"role": "user", "content": "hello"}]}


def models(server: Server) -> list[str]:
    return [entry["id"] for entry in server.ask("GET", "/v1/models").json["data"]]


@pytest.mark.proves("reload")
def test_a_stream_from_before_goes_on_and_a_new_model_is_there_after(tmp_path: Path) -> None:
    begun, reloaded = threading.Event(), threading.Event()

    def talk(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for part in PARTS[:25]:
            peer.send(part)
        begun.set()
        assert reloaded.wait(PATIENCE)
        for part in PARTS[25:]:
            peer.send(part)
        peer.send(END)

    with Provider(talk) as provider:
        home = f'[providers.home]\nkind = "compatible"\nbase_url = "{provider.url}/v1"\nmodels = ["m"]\n'
        with Server(tmp_path, config=home) as server:
            assert models(server) == ["home/m"]
            stream = server.call("POST", "/v1/chat/completions", {"model": "m", "stream": True, "messages": []})
            assert begun.wait(PATIENCE)
            server.config.write_text(ECHO.format(models='"echo"'))
            told = trunkline("reload", "--data", server.data, "--json", home=tmp_path)
            assert json.loads(told.stdout) == {"process": server.process.pid}
            assert server.said("took a new configuration")["after_restart"] == []
            assert models(server) == ["echo/echo"], "the old provider is gone, the new one is here"
            assert server.ask("POST", "/v1/chat/completions", CALL).status == 200
            reloaded.set()
            assert stream.read().body == b"".join(PARTS) + END
            assert server.said("exchange", model="m")["outcome"] == "ok"
            assert server.stop() == 0
            assert not [line for line in server.lines if line["level"] != "info"]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("[sever]\n", "`[sever]` is not a section"),
        ("[server\n", "is not valid TOML"),
        ('[server]\ntrusted_proxies = ["nobody"]\n', "server.trusted_proxies"),
        ('[server]\nhost = "0.0.0.0"\n', "there is no TLS"),
        ('[providers.x]\nkind = "compatible"\nbase_url = "http://h"\napi_key = "env:UNSET_KEY"\n', "`UNSET_KEY` is not set"),
        ('[routes.fast]\ntargets = [{ model = "gone/x" }]\n', "routes.fast.targets"),
        ('[store]\nurl = "env:UNSET_URL"\n', "`UNSET_URL` is not set"),
        ('[store]\nurl = "mysql://db/x"\n', "begins with `mysql`"),
        (None, "cannot be read"),
    ],
    ids=["section", "no toml", "proxies", "exposed", "no secret", "no provider", "no url", "no database of ours", "no file"],
)
def test_a_configuration_that_cannot_be_used_changes_nothing_and_is_logged(served: Server, broken: str | None, reason: str) -> None:
    before = len([line for line in served.lines if line["event"] == "the configuration stays as it was"])
    served.config.unlink() if broken is None else served.config.write_text(broken)
    served.signal(signal.SIGHUP)
    line = served.said("the configuration stays as it was", before + 1)
    assert (line["level"], reason in line["reason"]) == ("warning", True)
    assert models(served) == ["echo/echo"]
    assert served.ask("POST", "/v1/chat/completions", CALL).status == 200


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory):  # noqa: ANN201 - a generator of a Server
    with Server(tmp_path_factory.mktemp("served"), config=ECHO.format(models='"echo"')) as server:
        yield server


def test_what_needs_a_restart_is_named_and_flags_still_win(tmp_path: Path) -> None:
    with Server(tmp_path, config=ECHO.format(models='"echo"')) as server:
        server.config.write_text(
            '[server]\nport = 1\nheader_seconds = 7\n[log]\nlevel = "warning"\n[store]\nshared = "redis://cache/0"\n'
            + ECHO.format(models='"echo", "new"')
        )
        server.signal(signal.SIGHUP)
        assert server.said("took a new configuration")["after_restart"] == ["server.header_seconds", "log", "store"]
        assert models(server) == ["echo/echo", "echo/new"]


def test_a_configuration_that_was_not_there_at_the_start_is_found(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        assert models(server) == ["echo/echo"]
        server.config.write_text(ECHO.format(models='"late"'))
        server.signal(signal.SIGHUP)
        server.said("took a new configuration")
        assert models(server) == ["echo/late"]


# ------------------------------------------------------------------------------------------------------ in this process
def local(**server: object) -> Config:
    return read({"server": {"port": 0, **server}, "providers": {"small": {"kind": "local"}, "echo": {"kind": "echo"}}})


async def reload(installation: Installation, config: Config) -> None:
    await installation.reload(lambda: config)


async def test_a_model_server_lives_as_long_as_a_request_may_use_it(tmp_path: Path) -> None:
    log, writer = open_log(LogSettings(), io.StringIO())
    try:
        async with installed(local(), tmp_path, log) as installation:
            [first] = installation._plants
            [server] = first.servers.values()

            def exchange(name: str) -> Exchange:
                return Exchange(id=name, path="/", started=0.0, address="")

            with first.exchanges.held(exchange("a")):
                await reload(installation, local(max_body_bytes=2048))
                second = installation._plants[-1]
                assert list(second.servers.values()) == [server], "its settings did not change, so it goes on"
                held = second.exchanges.held(exchange("b"))
                held.__enter__()
                await reload(installation, read({"server": {"port": 0}, "providers": {"echo": {"kind": "echo"}}}))
            async with asyncio.timeout(PATIENCE):
                while first in installation._plants:
                    await asyncio.sleep(0)
                assert not server._closed, "the second configuration still has a request"
                held.__exit__(None, None, None)
                while second in installation._plants or not server._closed:
                    await asyncio.sleep(0)
            assert len(installation._plants) == 1
    finally:
        writer.close()


@pytest.mark.proves("daemon.looks", "reload")
async def test_what_a_daemon_serves_is_there_with_the_first_call_and_over_a_reload(tmp_path: Path) -> None:
    log, writer = open_log(LogSettings(), io.StringIO())
    try:
        async with FakeDaemon("http://127.0.0.1:9", only=("open",)) as daemon:
            config = read({"server": {"port": 0}, "providers": {"x": {"kind": "daemon", "base_url": daemon.url}}})
            async with installed(config, tmp_path, log) as installation:
                [first] = installation._plants
                assert list(first.daemons.providers) == ["x/open"]
                await daemon.daemon.aclose()  # it answers to nobody any more
                await reload(installation, config)
                second = installation._plants[-1]
                assert list(second.daemons.providers) == ["x/open"]
                async with asyncio.timeout(PATIENCE):
                    while first in installation._plants:
                        await asyncio.sleep(0)
                await reload(installation, read({"server": {"port": 0}, "providers": {}}))
                assert list(installation._plants[-1].daemons.providers) == []
    finally:
        writer.close()


async def test_a_configuration_that_cannot_be_used_leaves_the_site_as_it_is(tmp_path: Path) -> None:
    log, writer = open_log(LogSettings(), io.StringIO())
    try:
        async with installed(local(), tmp_path, log) as installation:
            assert installation._application is not None
            site = installation._application.site
            with pytest.raises(ConfigInvalid):
                await reload(installation, local(trusted_proxies=["nobody"]))
            assert installation._application.site is site
            assert len(installation._plants) == 1
    finally:
        writer.close()
