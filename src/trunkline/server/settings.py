"""`[server]`."""

from typing import Annotated

from trunkline.base.codec import Meta, Record

MIB = 1 << 20


class ServerSettings(Record, frozen=True):
    """Where and how it listens."""

    host: Annotated[str, Meta(description="The address to listen on. Others than loopback need TLS, or `insecure_http`.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="0 takes a free one.")] = 8484
    public_url: Annotated[
        Annotated[str, Meta(pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$")] | None,
        Meta(
            description="Where people's browsers reach it, such as `https://gateway.example`, for links in messages; by default where it listens."
        ),
    ] = None
    tls_cert: Annotated[str | None, Meta(description="Path of the certificate chain, PEM.")] = None
    tls_key: Annotated[str | None, Meta(description="Path of its private key, PEM.")] = None
    insecure_http: Annotated[
        bool, Meta(description="Listen beyond loopback without TLS: for a proxy that adds it, on a network you trust.")
    ] = False
    trusted_proxies: Annotated[list[str], Meta(description="Addresses or networks of proxies whose `X-Forwarded-For` counts.")] = []
    cors_origins: Annotated[
        list[Annotated[str, Meta(pattern="^https?://[^/]+$")]],
        Meta(description="Origins of web pages that may call from a browser, such as `https://chat.example`."),
    ] = []
    open_docs: Annotated[
        bool, Meta(description="Whether `/openapi.json` and `/docs/api`, which are the same in every installation, are read without a key.")
    ] = False
    max_body_bytes: Annotated[int, Meta(ge=1024, description="The largest request, after decompression.")] = 64 * MIB
    max_header_bytes: Annotated[int, Meta(ge=1024, description="The largest request head.")] = 128 * 1024
    header_seconds: Annotated[float, Meta(gt=0, le=86_400, description="The longest that a request head may take to arrive.")] = 15.0
    drain_seconds: Annotated[float, Meta(ge=0, le=86_400, description="How long calls in flight may go on when the server is stopped.")] = (
        30.0
    )
