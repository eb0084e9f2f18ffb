"""The extension daemon protocol, version 1: one program serves providers of models, another uses them.

A *daemon* serves providers and keeps nothing: no credential, no sign-in, no lease. A *product* holds credentials and asks.

| module | gives |
| --- | --- |
| `messages`, `protocol` | what travels, without I/O |
| `client` | the product's side, with typed `errors` |
| `tokenstore`, `oauthflow` | the product's credentials, and how its people sign in |
| `server` | the daemon's side: an ASGI app over one class for each provider |
| `check` | `python -m trunkline_sdk.daemon.check URL` tells whether a daemon keeps the contract |
"""
