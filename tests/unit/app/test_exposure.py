from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat, load_pem_private_key

from trunkline.app.exposure import check_daemon, check_exposure, check_tls
from trunkline.errors import ConfigInvalid
from trunkline.providers.daemon import DaemonSettings
from trunkline.server.settings import ServerSettings


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_tls(host: str) -> None:
    check_exposure(ServerSettings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.test", ""])
def test_beyond_loopback_keys_do_not_travel_in_the_clear_unless_that_is_said(host: str) -> None:
    with pytest.raises(ConfigInvalid, match="there is no TLS") as caught:
        check_exposure(ServerSettings(host=host))
    assert "--insecure-http" in caught.value.hint
    check_exposure(ServerSettings(host=host, insecure_http=True))
    check_exposure(ServerSettings(host=host, tls_cert="c", tls_key="k"))


@pytest.mark.parametrize(("given", "missing"), [({"tls_cert": "c"}, "tls_key"), ({"tls_key": "k"}, "tls_cert")])
def test_half_of_what_tls_needs_is_refused(given: dict[str, str], missing: str) -> None:
    with pytest.raises(ConfigInvalid, match=f"server.{missing}"):
        check_exposure(ServerSettings(**given))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    for name in ("a", "b"):
        issued = trustme.CA().issue_cert("localhost")
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
    return folder


def pair(folder: Path, cert: str, key: str) -> ServerSettings:
    return ServerSettings(tls_cert=str(folder / cert), tls_key=str(folder / key))


def test_a_certificate_with_its_key_is_fine(folder: Path) -> None:
    check_tls(pair(folder, "a.pem", "a.key"))
    check_tls(ServerSettings())


@pytest.mark.parametrize(
    ("cert", "key"), [("a.pem", "b.key"), ("a.key", "a.pem"), ("none.pem", "a.key"), ("a.pem", "none.key"), (".", "a.key")]
)
def test_a_pair_that_cannot_be_used_is_refused_with_the_names_of_its_files(folder: Path, cert: str, key: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"`server\.tls_cert` and `server\.tls_key` cannot be used") as caught:
        check_tls(pair(folder, cert, key))
    assert str(folder / cert) in caught.value.hint
    assert str(folder / key) in caught.value.hint


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it(folder: Path) -> None:
    key = load_pem_private_key((folder / "a.key").read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"canary"))
    (folder / "locked.key").write_bytes(locked)
    with pytest.raises(ConfigInvalid, match="passphrase"):
        check_tls(pair(folder, "a.pem", "locked.key"))


# -------------------------------------------------------------------------------------------------------------- daemons
HERE = ["http://127.0.0.1:18888", "http://localhost:18888", "http://[::1]:18888/base", "https://127.0.0.1:18888"]
ELSEWHERE = "https://daemon.test/base"


def daemon(base_url: str, *, secret: bool = True, **said: Any) -> None:
    check_daemon("x", DaemonSettings(kind="daemon", **said), base_url, has_secret=secret)


@pytest.mark.proves("daemon.exposure")
@pytest.mark.parametrize("base_url", HERE)
def test_a_daemon_on_this_machine_may_be_asked_without_tls_and_secret(base_url: str) -> None:
    daemon(base_url, secret=False)


@pytest.mark.proves("daemon.exposure")
@pytest.mark.parametrize("base_url", ["http://daemon.test", "http://10.0.0.7:18888", "http://192.0.2.1", "http://127.0.0.1.test"])
def test_a_daemon_elsewhere_is_asked_over_tls_unless_that_is_said(base_url: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"`providers\.x\.base_url` leaves this machine, and there is no TLS"):
        daemon(base_url)
    daemon(base_url, insecure_http=True)
    with pytest.raises(ConfigInvalid, match=r"`providers\.x\.secret` is missing"):
        daemon(base_url, insecure_http=True, secret=False)


@pytest.mark.proves("daemon.exposure")
def test_a_daemon_elsewhere_needs_a_secret() -> None:
    daemon(ELSEWHERE)
    with pytest.raises(ConfigInvalid, match=r"`providers\.x\.secret` is missing"):
        daemon(ELSEWHERE, secret=False)


def test_settings_that_are_of_no_use_for_a_daemon_are_refused() -> None:
    with pytest.raises(ConfigInvalid, match="has none") as caught:
        daemon(ELSEWHERE, api_key="env:KEY")
    assert "credentials add x/PROVIDER" in caught.value.hint
    for said in ({"ca": "ca.pem"}, {"pins": ["0" * 64]}):
        with pytest.raises(ConfigInvalid, match="are about TLS"):
            daemon(HERE[0], **said)
        daemon(ELSEWHERE, **said)
    with pytest.raises(ConfigInvalid, match="is not a URL"):
        daemon("http://[::1")
