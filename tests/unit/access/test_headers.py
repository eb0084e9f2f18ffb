import pytest

from trunkline.access.headers import credential

KEY = "swb_" + "a" * 32


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([], None),
        ([(b"authorization", f"Bearer {KEY}".encode())], KEY),
        ([(b"authorization", f"bearer  {KEY} ".encode())], KEY),
        ([(b"x-api-key", KEY.encode())], KEY),
        ([(b"x-api-key", f" {KEY} ".encode())], KEY),
        ([(b"x-api-key", b"other"), (b"authorization", f"Bearer {KEY}".encode())], KEY),
        ([(b"authorization", f"Bearer {KEY}".encode()), (b"x-api-key", b"other")], KEY),
        ([(b"authorization", f"Bearer {KEY}".encode()), (b"authorization", b"Bearer other")], KEY),
        ([(b"authorization", b"Basic YTpi"), (b"x-api-key", KEY.encode())], None),
        ([(b"authorization", KEY.encode())], None),
        ([(b"authorization", b"Bearer")], ""),
        ([(b"authorization", b"Bearer \xff")], "\xff"),
        ([(b"cookie", KEY.encode()), (b"api-key", KEY.encode())], None),
    ],
)
def test_a_key_stands_in_authorization_or_else_in_x_api_key(headers: list[tuple[bytes, bytes]], found: str | None) -> None:
    assert credential(headers) == found
