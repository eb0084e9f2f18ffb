# What we use of brotli, which ships no types (https://github.com/google/brotli, python/brotli.py).

class error(Exception): ...  # noqa: N801

class Decompressor:
    def process(self, data: bytes, *, output_buffer_limit: int = ...) -> bytes: ...
    def is_finished(self) -> bool: ...
