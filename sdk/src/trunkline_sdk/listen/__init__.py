"""An ASGI listener: uvicorn's protocol with bounds, without its signals, logs and `Server` header (extra ``serve``).

    async with Listener(app, port=8080) as listener:
        ...                                     # serves; `listener.urls` says where
        await listener.drain(30, ending=app.end_streams)

The head of a request is bounded in bytes (431) and in time (408); what two parsers could read in two ways is refused (400). The caller owns
the signals and says when to drain. Lifespan is off: what an app needs is made before it is served.

A client that leaves before its answer is complete is seen in two ways. ``receive()`` gives ``http.disconnect`` as ever; and an app that wants
no task to wait for it registers a callback::

    register = scope["extensions"][ON_DISCONNECT]
    register(task.cancel)                       # one callback; it takes no argument and is called at most once

It is called from the event loop when the connection is lost, at once if it is lost already, never after the answer is complete; what is sent
after that goes nowhere. Other servers do not offer it: an app looks for the key and falls back to ``receive()``.

``scope["extensions"][BREAK_OFF]()`` ends an answer that has begun and cannot be completed: what was sent arrives, then the connection closes
without the end of the body, so that no client takes it for whole.

``scope["extensions"][BODY_WHOLE]()`` tells whether the whole body has arrived: then an app need not set a time for it.
"""

from trunkline_sdk.listen.connection import BODY_WHOLE, BREAK_OFF, ON_DISCONNECT
from trunkline_sdk.listen.limits import ListenLimits
from trunkline_sdk.listen.listener import Listener, ListenError, Tls

__all__ = ["BODY_WHOLE", "BREAK_OFF", "ON_DISCONNECT", "ListenError", "ListenLimits", "Listener", "Tls"]
