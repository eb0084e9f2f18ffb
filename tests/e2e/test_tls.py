"""TLS, and what happens without."""

import http.client
import ssl
import subprocess
from pathlib import Path

import pytest
import trustme

from tests.fakes.server import PATIENCE, Server, trunkline

CALL = {"model": "echo", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def pair(authority: trustme.CA, tmp_path: Path) -> tuple[Path, Path]:
    issued = authority.issue_cert("localhost")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    return chain, key


def test_calls_go_over_tls_and_not_beside_it(authority: trustme.CA, pair: tuple[Path, Path], tmp_path: Path) -> None:
    with Server(tmp_path, "--tls-cert", pair[0], "--tls-key", pair[1], "--host", "localhost") as server:
        assert server.url.startswith("https://")
        server.trust = ssl.create_default_context()
        authority.configure_trust(server.trust)
        assert server.ask("POST", "/v1/chat/completions", CALL).json["choices"][0]["message"]["content"] == "hello"
        stream = server.ask("POST", "/v1/chat/completions", {**CALL, "stream": True})
        assert stream.body.endswith(b"data: [DONE]\n\n")

        plain = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        try:
            plain.request("GET", "/healthz")
            with pytest.raises((http.client.HTTPException, ConnectionError)):
                plain.getresponse()
        finally:
            plain.close()
        server.trust = ssl.create_default_context()
        with pytest.raises(ssl.SSLCertVerificationError):
            server.ask("GET", "/healthz")
        assert server.stop() == 0


@pytest.mark.proves("admin.commands")
def test_the_command_line_knows_its_own_server_by_the_certificate_whatever_name_and_signature_that_has(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    with Server(tmp_path, "--tls-cert", pair[0], "--tls-key", pair[1], "--host", "127.0.0.1") as server:

        def ask() -> subprocess.CompletedProcess[str]:
            return trunkline("providers", "list", "--data", server.data, home=tmp_path)

        told = ask()
        assert (told.returncode, told.stderr) == (0, "")
        assert "echo" in told.stdout
        elsewhere = trunkline("providers", "list", "--server", server.url, "--key-file", server.data / "admin.key", home=tmp_path)
        assert elsewhere.returncode == 1
        assert "its certificate is refused" in elsewhere.stderr

        place = server.data / "trunkline.url"
        place.write_text(f"{server.url} {'0' * 64}\n")
        told = ask()
        assert told.returncode == 1
        assert "its certificate is none of those that are pinned" in told.stderr


def test_beyond_loopback_nothing_listens_without_tls(tmp_path: Path) -> None:
    result = trunkline("serve", "--host", "0.0.0.0", "--port", "0", "--data", tmp_path / "data", home=tmp_path)
    assert result.returncode == 1
    assert result.stderr.splitlines()[0].startswith("error: `0.0.0.0` can be reached from other machines")
    assert "--insecure-http" in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_certificate_that_cannot_be_used_is_an_error_with_the_names_of_the_files(pair: tuple[Path, Path], tmp_path: Path) -> None:
    result = trunkline("serve", "--tls-cert", pair[1], "--tls-key", pair[0], "--data", tmp_path / "data", home=tmp_path)
    assert result.returncode == 1
    assert "server.tls_cert" in result.stderr
    assert str(pair[0]) in result.stderr
    assert "Traceback" not in result.stderr
