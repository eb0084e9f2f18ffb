"""How many tokens a text has, approximately, where nobody who knows can be asked."""

ASCII_BYTES_PER_TOKEN = 4
LETTERS_BYTES_PER_TOKEN = 3  # two-byte scripts: Latin with marks, Cyrillic, Greek, Arabic
WIDE_BYTES_PER_TOKEN = 3  # three and four bytes: CJK, emoji; about one token a character


def approximate(text: bytes) -> int:
    """Tokens of a UTF-8 text by its bytes in each class of script; never zero for a text that is not empty."""
    ascii_bytes = len(text.translate(None, _NOT_ASCII))
    two = len(text.translate(None, _NOT_TWO)) * 2
    wide = len(text) - ascii_bytes - two
    return -(-ascii_bytes // ASCII_BYTES_PER_TOKEN) + -(-two // LETTERS_BYTES_PER_TOKEN) + -(-wide // WIDE_BYTES_PER_TOKEN)


_NOT_ASCII = bytes(range(0x80, 0x100))
_NOT_TWO = bytes(byte for byte in range(0x100) if not 0xC0 <= byte < 0xE0)
