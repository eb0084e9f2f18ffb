"""The vault's keys: 32 random bytes each, known by an id that is derived from them, written as one line of text.

A text holds one or several, the current one first; what follows a `#` is for people.
"""

import hmac
import re
import secrets
from base64 import b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from trunkline.base.codec import Meta, Record
from trunkline.base.ids import letters
from trunkline.errors import VaultUnavailable

SIZE = 32  # bytes: AES-256
ID_LETTERS = 12  # 56 bits: one installation has a handful
HEAD = "# The vault's keys, the current one first. Without them the stored credentials are lost: keep a copy apart from the database's.\n"
MAKE = "openssl rand -base64 32"

_FOR_ID, _FOR_SEALING = b"trunkline vault: id", b"trunkline vault: seal 1"


class VaultSettings(Record, frozen=True):
    """Where the key is that stored credentials are encrypted with."""

    key: Annotated[
        Annotated[str, Meta(pattern="^(env|file|keyring):.+")] | None,
        Meta(
            description="`env:NAME`, `file:PATH`, or `keyring:SERVICE` for the system's keyring; by default the file `vault.key` in the data "
            "folder. The key never stands in this file."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class VaultKey:
    """One key. Its bytes are in no representation of it.

    Attributes:
        id: `vk_` and letters; tells nothing of the key.
        sealing: what secrets are encrypted with, derived from the key.
    """

    material: bytes = field(repr=False)
    id: str = field(init=False, compare=False)
    sealing: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        number = int.from_bytes(hmac.digest(self.material, _FOR_ID, "sha256")[:8], "big")
        object.__setattr__(self, "id", f"vk_{letters(number, ID_LETTERS)}")
        object.__setattr__(self, "sealing", hmac.digest(self.material, _FOR_SEALING, "sha256"))

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a key is not pickled")


def new_key() -> VaultKey:
    """A new key."""
    return VaultKey(secrets.token_bytes(SIZE))


def read_keys(text: str, where: str) -> tuple[VaultKey, ...]:
    """The keys that a text holds, the current one first.

    Args:
        text: keys in base64 or hex, between them spaces, commas or ends of lines.
        where: they come from, for messages.

    Raises:
        VaultUnavailable: one of them is no key; it is not repeated.
    """
    words = [word for line in text.splitlines() for word in re.split(r"[\s,]+", line.partition("#")[0]) if word]
    found: dict[VaultKey, None] = {}
    for number, word in enumerate(words, 1):
        material = _bytes_of(word)
        if material is None:
            raise VaultUnavailable(
                f"{where}: number {number} of the vault's keys is none", hint=f"A key is {SIZE} random bytes in base64: `{MAKE}`."
            )
        found[VaultKey(material)] = None
    return tuple(found)


def write_keys(keys: Sequence[VaultKey]) -> str:
    """The text that holds keys, in their order."""
    return "".join(f"{urlsafe_b64encode(key.material).decode()}\n" for key in keys)


def _bytes_of(word: str) -> bytes | None:
    try:
        if re.fullmatch(f"[0-9a-fA-F]{{{2 * SIZE}}}", word):
            return bytes.fromhex(word)
        plain = word.translate(str.maketrans("-_", "+/")).rstrip("=")
        material = b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (NotBase64, ValueError):  # the latter where it is not ASCII
        return None
    return material if len(material) == SIZE else None
