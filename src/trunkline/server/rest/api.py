"""The admin API as one ASGI application, apart from the path of calls: identify → find → allow → read → do → answer."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from hashlib import sha256
from inspect import iscoroutine
from typing import Any, cast

from starlette.responses import Response
from starlette.routing import Match
from starlette.routing import Route as Path

from trunkline.base.clock import Clock
from trunkline.base.codec import encode
from trunkline.base.ids import new_id
from trunkline.base.log import mask
from trunkline.errors import (
    ConfigInvalid,
    Denied,
    Internal,
    MethodNotAllowed,
    NotFound,
    PreconditionFailed,
    StoreUnavailable,
    TrunklineError,
    VaultUnavailable,
)
from trunkline.gateway.exchange import CallerLeft
from trunkline.gateway.headers import Headers, error_headers, request_ids
from trunkline.gateway.pipeline import Access
from trunkline.model.caller import Caller
from trunkline.server.admin import MOST_BODY, ROOT, Ask, Declared, Identified, Owned, Resource, Revised, Route, Rows, declared
from trunkline.server.body import Receive, read_body
from trunkline.server.rest import reading
from trunkline.server.rest.documents import Document, documents
from trunkline.server.rest.pool import Pool

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

OURS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
"""What every answer has."""

BODY_HINT = "A body of the admin API is a small JSON object."


class Api:
    """The resources over HTTP.

    Args:
        resources: by name.
        services: what the resources' routes are given, by the class that each asks for.
        access: finds out who asks.
        pool: runs what blocks.
        clock: the time, for request ids.
        crashed: told of faults of ours.
        most_body: bytes of a body.
        open_documents: whether the API's description is read without a key.

    Raises:
        ConfigInvalid: a route does not say who may, two are the same, or a service is missing.
    """

    def __init__(
        self,
        *,
        resources: Mapping[str, Resource[Any]],
        services: Mapping[type, object],
        access: Access,
        pool: Pool,
        clock: Clock,
        crashed: Callable[[str, Exception], None],
        most_body: int = MOST_BODY,
        open_documents: bool = False,
    ) -> None:
        self.routes: Sequence[Declared] = declared(resources)
        self.documents: Mapping[str, Document] = documents(self.routes)
        self.open_documents = open_documents
        for name, resource in resources.items():
            if resource.service not in services:
                raise ConfigInvalid(f"the resource `{name}` needs a `{resource.service.__name__}`, and there is none")
        self._services = services
        self._access = access
        self._pool = pool
        self._clock = clock
        self._crashed = crashed
        self._most_body = min(most_body, MOST_BODY)
        self._paths = _paths(self.routes)

    def serves(self, path: str) -> bool:
        """Whether a path is one of this application's."""
        return path.startswith("/api/") or path == "/api" or path in self.documents

    async def answer(self, scope: Mapping[str, Any], receive: Receive, send: Send, *, path: str, address: str, extra: Headers) -> None:
        """Answer one request.

        Args:
            scope: of ASGI.
            receive: of ASGI.
            send: of ASGI.
            path: the path, without doubled slashes.
            address: the caller's.
            extra: headers that the answer gets too.
        """
        request_id = new_id("rqe", self._clock)
        headers: Headers = scope["headers"]
        caller: Caller | None = None
        try:
            document = self.documents.get(path)
            if document is None or not self.open_documents:
                caller = await self._access.identify(headers, address)
            if document is not None:
                response = await self._document(document, scope["method"], headers, path)
            else:
                response = await self._answer(scope, receive, path, caller)
        except CallerLeft:
            return
        except TrunklineError as error:
            response = _told(error, request_id, caller)
        except Exception as error:  # noqa: BLE001 - the border of a request
            self._crashed(request_id, error)
            response = _told(
                Internal("something went wrong in Trunkline", hint=f"The log has it under `{request_id}`."), request_id, caller
            )
        given = {name for name, _ in response.raw_headers}
        head = [*response.raw_headers, *(each for each in (*request_ids(request_id), *OURS, *extra) if each[0] not in given)]
        await send({"type": "http.response.start", "status": response.status_code, "headers": head})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else response.body, "more_body": False})

    async def _document(self, document: Document, method: str, headers: Headers, path: str) -> Response:
        if method not in {"GET", "HEAD"}:
            raise _not_allowed(path, method, "GET, HEAD")
        made = await self._pool.run(document.made)
        if reading.is_fresh(headers, made.etag):
            return Response(status_code=304, headers={"etag": made.etag})
        return Response(made.body, headers={**document.headers, "etag": made.etag}, media_type=document.content_type)

    async def _answer(self, scope: Mapping[str, Any], receive: Receive, path: str, caller: Caller | None) -> Response:
        each, values = self._find(path, scope["method"])
        if any("\0" in value for value in values.values()):
            raise NotFound("nothing has a name with a NUL character")  # PostgreSQL has no room for one
        assert caller is not None
        route = each.route
        _allow(each, caller)
        headers: Headers = scope["headers"]
        revision = reading.read_if_match(headers, route)
        query = reading.read_query(scope["query_string"], route.query)
        body = None
        if route.body is not None:
            reading.check_type(headers, route.method)
            body = reading.read_body(await read_body(receive, headers, self._most_body, hint=BODY_HINT), route.body)
        ask: Ask[Any, Any] = Ask(caller=caller, path=values, query=query, body=body, revision=revision)
        work = partial(route.do, self._services[each.resource.service], ask)
        answer: object = await self._pool.run(work) if route.runs == "thread" else work()
        if iscoroutine(answer):
            answer = await self._pool.wait(answer)
        _check_owner(answer, ask, each)
        return _response(each, answer, headers, revision)

    def _find(self, path: str, method: str) -> tuple[Declared, dict[str, str]]:
        """The route at a path.

        Raises:
            NotFound: nothing is there.
            MethodNotAllowed: something is, and answers other methods.
        """
        for pattern, methods in self._paths:
            match, found = pattern.matches({"type": "http", "path": path, "method": "GET"})
            if match is Match.FULL:
                each = methods.get("GET" if method == "HEAD" else method)
                if each is None:
                    raise _not_allowed(path, method, ", ".join([*methods, *(["HEAD"] if "GET" in methods else [])]))
                return each, found["path_params"]
        raise NotFound(f"there is nothing at `{path}`", hint="`/docs/api` and `/openapi.json` say what there is.")


def _paths(routes: Sequence[Declared]) -> list[tuple[Path, dict[str, Declared]]]:
    """The routes by their paths, each with its methods."""
    by_path: dict[str, dict[str, Declared]] = {}
    for each in routes:
        by_path.setdefault(each.path, {})[each.route.method] = each
    return [(Path(path, _nowhere, methods=None), methods) for path, methods in by_path.items()]


class _Nowhere:
    """Stands where Starlette wants an application: we only ask which path it is."""

    async def __call__(self, *_: object) -> None:
        raise AssertionError("routes are looked up, not called")


_nowhere = _Nowhere()


def _not_allowed(path: str, method: str, allow: str) -> MethodNotAllowed:
    return MethodNotAllowed(f"`{path}` does not answer {method}", hint=f"Use {allow}.", allow=allow)


def _allow(each: Declared, caller: Caller) -> None:
    """Let the caller pass, or not. Raises: `Denied`."""
    route = each.route
    if route.own and caller.user is not None and "inference" in caller.scopes:
        return
    if route.scope not in caller.scopes:
        raise Denied(f"the key `{caller.name}` may not `{each}`", hint=f"It lacks the scope `{route.scope}`.")
    if route.scope == "account" and "admin" not in caller.scopes and caller.role not in route.roles:
        raise Denied(
            f"the key `{caller.name}` may not `{each}`",
            hint=f"Its role is `{caller.role}`; that is for {', '.join(f'`{role}`' for role in route.roles)}.",
        )


def _check_owner(answer: object, ask: Ask[Any, Any], each: Declared) -> None:
    """The last net: what belongs to another account or user goes to no one who is confined to one."""
    rows = cast(Rows[object], answer).data if isinstance(answer, Rows) else [answer]
    if any(isinstance(row, Owned) and not ask.is_mine(row) for row in rows):
        raise AssertionError(f"`{each}` answered with a row of another account or user")


def _response(each: Declared, answer: object, headers: Headers, revision: int | None) -> Response:
    route: Route[Any] = each.route
    if answer is None:
        return Response(status_code=route.good_status)
    body = encode(answer)
    etag = f'"{answer.revision}"' if isinstance(answer, Revised) else f'"{sha256(body).hexdigest()[:32]}"'
    made = {"etag": etag}
    if route.method == "GET":
        if revision is not None and etag != f'"{revision}"':
            raise PreconditionFailed(f"the object is at {etag}, not at `{revision}`", hint="Read it again.")
        if reading.is_fresh(headers, etag):
            return Response(status_code=304, headers=made)
    elif not isinstance(answer, Revised):
        made = {}  # what a change answers is no state of an object
    if route.good_status == 201 and isinstance(answer, Identified):
        made["location"] = f"{ROOT}{each.resource.path}/{answer.id}"
    return Response(body, status_code=route.good_status, headers=made, media_type="application/json")


def _told(error: TrunklineError, request_id: str, caller: Caller | None) -> Response:
    """The one shape of errors. What an error of the database or the vault says of this machine is for its operator."""
    message, hint = error.message, error.hint
    if caller is None or "admin" not in caller.scopes:
        match error:
            case StoreUnavailable():
                message, hint = "the database does not answer", "Try again soon; `trunkline doctor` on the server finds the reason."
            case VaultUnavailable():
                message, hint = "secrets cannot be sealed or opened now", "The operator asks `trunkline vault status` why."
            case _:
                pass
    shape = {"code": error.code, "message": mask(message), "hint": hint, "fault": error.fault, "request_id": request_id}
    body = encode({"error": shape})
    response = Response(body, status_code=error.http_status)
    response.raw_headers = list(error_headers(error, request_id, len(body)))
    return response
