"""Sealing a secret: AES-256-GCM, bound to the place where it is kept. No I/O.

    1 byte    version, 1
    12 bytes  nonce, random (NIST SP 800-38D, 8.2.2), so that a key seals far fewer than 2^32 times
    the rest  the secret, encrypted, and the tag of 16 bytes

Authenticated with it are the version, the key's id and the place: what was copied to another place, or is said to be of another key,
does not open.
"""

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from trunkline.access.vault_key import VaultKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VERSION = b"\x01"
NONCE = 12
TAG = 16


class Unopened(Exception):
    """What is sealed does not open: it, its place or its key is not what it was."""


def seal(key: VaultKey, place: Sequence[str], secret: str) -> bytes:
    """A secret, sealed with a key for a place, which is told by its parts."""
    nonce = os.urandom(NONCE)
    return VERSION + nonce + _cipher()(key.sealing).encrypt(nonce, secret.encode(), _bound(key, place))


def unseal(key: VaultKey, place: Sequence[str], sealed: bytes) -> str:
    """The secret. Raises: `Unopened`."""
    if sealed[:1] != VERSION or len(sealed) < 1 + NONCE + TAG:
        raise Unopened
    from cryptography.exceptions import InvalidTag

    try:
        return _cipher()(key.sealing).decrypt(sealed[1 : 1 + NONCE], sealed[1 + NONCE :], _bound(key, place)).decode()
    except InvalidTag:
        raise Unopened from None


def _bound(key: VaultKey, place: Sequence[str]) -> bytes:
    """All parts, each with its length, so that no two places read the same."""
    parts = [part.encode() for part in (key.id, *place)]
    return VERSION + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


@cache
def _cipher() -> "Callable[[bytes], AESGCM]":
    """Imported when the first secret is: who keeps none does without its 10 MB."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM
