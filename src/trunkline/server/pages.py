"""What is read by GET: health, metrics, the models."""

from collections.abc import Callable, Sequence

from trunkline.base.codec import encode, nearest
from trunkline.errors import NotFound
from trunkline.server.asgi import Page
from trunkline.surfaces import Listed, Listing

JSON = b"application/json"


def health() -> Page:
    """`/healthz`: this process runs. Open, and says no detail."""
    return Page(JSON, lambda _: (200, b'{"status":"ok"}'))


def readiness(ready: Callable[[], bool]) -> Page:
    """`/readyz`: calls are welcome here. Open, and says no detail."""

    def read(_: str) -> tuple[int, bytes]:
        fine = ready()
        return (200 if fine else 503), encode({"status": "ready" if fine else "not ready"})

    return Page(JSON, read)


def metrics(render: Callable[[], bytes]) -> Page:
    """`/metrics` in the text format of Prometheus."""
    return Page(b"text/plain; version=0.0.4; charset=utf-8", lambda _: (200, render()), "metrics")


def listing(models: Callable[[], Sequence[Listed]], listing: Listing) -> dict[str, Page]:
    """The models, all on one page, and each below it."""

    def one(model: str) -> tuple[int, bytes]:
        known = {listed.id: listed for listed in models()}
        if model not in known:
            close = nearest(model, list(known))
            raise NotFound(
                f"there is no model `{model}`", hint=f"Did you mean `{close}`?" if close else f"`GET {listing.path}` lists the names."
            )
        return 200, listing.write_one(known[model])

    return {
        listing.path: Page(JSON, lambda _: (200, listing.write_all(models())), "inference"),
        f"{listing.path}/": Page(JSON, one, "inference"),
    }
