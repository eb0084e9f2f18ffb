"""What is read by GET: health, metrics, the models."""

from collections.abc import Callable, Sequence

from trunkline.base.codec import encode, nearest
from trunkline.errors import NotFound
from trunkline.model.caller import Caller
from trunkline.server.asgi import Page
from trunkline.surfaces import Listed, Listing

JSON = b"application/json"


def health() -> Page:
    """`/healthz`: this process runs. Open, and says no detail."""
    return Page(JSON, lambda _, __: (200, b'{"status":"ok"}'))


def readiness(ready: Callable[[], bool]) -> Page:
    """`/readyz`: calls are welcome here. Open, and says no detail."""

    def read(_: str, __: Caller | None) -> tuple[int, bytes]:
        fine = ready()
        return (200 if fine else 503), encode({"status": "ready" if fine else "not ready"})

    return Page(JSON, read)


def metrics(render: Callable[[], bytes]) -> Page:
    """`/metrics` in the text format of Prometheus."""
    return Page(b"text/plain; version=0.0.4; charset=utf-8", lambda _, __: (200, render()), "metrics")


def listing(models: Callable[[Caller], Sequence[Listed]], listing: Listing) -> dict[str, Page]:
    """The models that a caller may use, all on one page, and each below it.

    Args:
        models: gives the same object while nothing has changed, which is written once then.
        listing: how they are written.
    """
    written = Written(models, listing)
    return {
        listing.path: Page(JSON, lambda _, caller: (200, written.all(caller)), "inference"),
        f"{listing.path}/": Page(JSON, lambda model, caller: (200, written.one(model, caller)), "inference"),
    }


class Written:
    """A listing, written anew for who may use all models when these are not those of the last time, and for each other caller."""

    def __init__(self, models: Callable[[Caller], Sequence[Listed]], listing: Listing) -> None:
        self._models = models
        self._listing = listing
        self._of: Sequence[Listed] | None = None
        self._all = b""

    def all(self, caller: Caller | None) -> bytes:
        """The whole page."""
        models = self._seen(caller)
        if caller is None or caller.models is not None:
            return self._listing.write_all(models)
        if models is not self._of:
            self._of = models
            self._all = self._listing.write_all(models)
        return self._all

    def one(self, model: str, caller: Caller | None) -> bytes:
        """One entry. Raises: `NotFound`."""
        by_id = {listed.id: listed for listed in self._seen(caller)}
        if model not in by_id:
            close = nearest(model, list(by_id))
            raise NotFound(
                f"there is no model `{model}`", hint=f"Did you mean `{close}`?" if close else f"`GET {self._listing.path}` lists the names."
            )
        return self._listing.write_one(by_id[model])

    def _seen(self, caller: Caller | None) -> Sequence[Listed]:
        return () if caller is None else self._models(caller)
