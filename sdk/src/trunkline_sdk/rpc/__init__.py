"""The protocol between the host and an extension's worker, without I/O; both ends use it.

Frames on one byte stream: `u32 length | u8 kind | body`, the length in network order and of kind and body together. Kind 0 is a JSON
message in UTF-8, kind 1 a piece of a stream (`u32 stream | u32 seq | bytes`; `seq` counts from 0). Other kinds are passed over.

Messages have the shape of JSON-RPC 2.0, `id` first; unknown fields are passed over, and what is a whole number is written as one:

| message | is |
| --- | --- |
| `{"id": 1, "method": …, "params": …, "deadline_ms": …, "during": …, "context": …}` | a call; each side counts its own ids up from 1, and uses none again |
| `{"id": 1, "result": …}`, `{"id": 1, "error": {code, message, retryable, details}}` | its one final answer, also after a cancel; the codes are in `errors` |
| `{"method": …, "params": …}` | a notification; one that nobody knows is passed over |

and these notifications are the protocol's own:

| from | notification | is |
| --- | --- | --- |
| worker | `hello {versions: [least, most], sdk, api, pid, controls, limits}` | its first word. `limits {frame_bytes, calls, stream_messages, stream_bytes, streams}` are what this side takes; those left out are as in `messages.Limits` |
| host | `welcome {version, limits}` or `refused {reason}` | the answer, before which neither side says anything else; `refused` is its last word |
| caller | `cancel {id, reason}` | nobody waits for the answer any more |
| sender | `stream.open {stream, call}` | pieces will follow; streams are numbered from 1 by who opens them. `call` is 0, or the receiver's call that they answer with its sign changed; then it comes before the answer, which tells the number |
| sender | `stream.end {stream, error}` | no more pieces; with an error they are not all |
| receiver | `stream.credit {stream, messages, bytes}` | so much was used, and not only taken, since the last credit |
| receiver | `stream.cancel {stream, reason}` | nobody takes more pieces |

**Deadlines.** `deadline_ms` is the time that is left; there are 10 minutes at most, and where none is named. A call made while answering another
says so (`during`), has no more time than that one, and ends with it. Nobody waits for an answer after a deadline or a cancel; what comes late is
dropped and counted. Who is called stops at the deadline by itself.

**Streams.** A sender has the window of the other side's `limits` to begin with, and what `stream.credit` adds, never more than the window in all. A
piece has at most half of the window's bytes; credit is given when half a window was used, at the latest. Pieces keep their order, and messages
overtake them: a call may be answered before the last pieces of a stream that it opened have come. A stream goes on after the call's answer, but one
that is opened when the call is over already is cancelled. It counts as open until its end is written.

**What is too much, or wrong.** A frame that is larger than `limits.frame_bytes` is passed over, and so is a message that cannot be read; by its first
bytes, `{"id": N, "method"|"result"|"error"`, its call ends with `payload_too_large` or `failed`. Calls and streams beyond the limits are answered, or
cancelled, with `rate_limited`; a call counts until it is answered, also one that was cancelled. What else may not be said (a number that was used before, a second answer, a piece out of turn or without room) is
passed over, and its stream broken off. After more than 100 of these, any one before the welcome, or a length of 0 or of more than 256 MiB, the
connection is closed, and everything on it ends.

`tests/rpc/conformance.json` holds cases for implementations in any language.

| module | gives |
| --- | --- |
| `frames` | bytes ⇄ frames |
| `messages` | the records, and how they are written |
| `peer` | one end: what came → events, what is wanted → bytes |
| `errors` | the codes |
"""
