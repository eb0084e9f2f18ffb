"""The protocol between the host and an extension's worker, without I/O; both ends use it.

Frames on one byte stream: `u32 length | u8 kind | body`, the length in network order and of kind and body together. Kind 0 is a JSON
message, kind 1 a piece of a stream (`u32 stream | u32 seq | bytes`).

Messages have the shape of JSON-RPC 2.0, `id` first:

| message | is |
| --- | --- |
| `{"id": 1, "method": …, "params": …, "deadline_ms": …, "during": …, "context": …}` | a call; each side counts its own ids up from 1 |
| `{"id": 1, "result": …}`, `{"id": 1, "error": {code, message, retryable, details}}` | its one final answer |
| `{"method": …, "params": …}` | a notification |

and these notifications are the protocol's own: `hello` (the worker's first word) and `welcome` or `refused` (the host's), `cancel {id, reason}`,
`stream.open {stream, call}`, `stream.end {stream, error}` from who sends a stream, `stream.credit {stream, messages, bytes}` and
`stream.cancel {stream, reason}` from who takes it. Streams are numbered by who opens them. A sender has the window of the other side's
`limits` to begin with, and what `stream.credit` adds; it is given when a piece was used, not when it came.

`deadline_ms` is the time that is left. A call made while answering another says so (`during`), has no more time than that one, and ends
with it. Nobody waits for an answer after a deadline or a cancel: what comes late is dropped and counted.

| module | gives |
| --- | --- |
| `frames` | bytes ⇄ frames |
| `messages` | the records, and how they are written |
| `peer` | one end: what came → events, what is wanted → bytes |
| `errors` | the codes |
"""
