"""Every promised behaviour, with its source. A test that proves one names it: `@pytest.mark.proves("G18")`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """What must be true, and who says so."""

    text: str
    source: str


FIELD = "field case of a comparable system"
PROMISE = "README, ARCHITECTURE, docs"

REQUIREMENTS = {
    # ------------------------------------------------------------------------------- what went wrong for others (field cases)
    "G1": Requirement("A read boundary inside a multi-byte character changes nothing", f"{FIELD}: api7/aisix#111"),
    "G2": Requirement(
        "CRLF, bare CR, `data:` without space, several data lines and comments read as their LF version",
        f"{FIELD}: praxis-proxy/praxis#739",
    ),
    "G3": Requirement(
        "A Messages stream has one `message_start` with usage, balanced blocks and one `message_stop`", f"{FIELD}: maximhq/bifrost#4556"
    ),
    "G4": Requirement("Usage beside the last finish reason is kept, cached tokens apart", f"{FIELD}: BerriAI/litellm#36168"),
    "G5": Requirement(
        "A response that fails in its stream for a rate limit is that error to a Messages client, never a clean end, and counts",
        f"{FIELD}: BerriAI/litellm#32086",
    ),
    "G6": Requirement("A tool call whose stream breaks is never completed", f"{FIELD}: BerriAI/litellm PR#32159"),
    "G7": Requirement("Interleaved tool calls keep their ids, and each argument string parses", f"{FIELD}: BerriAI/litellm#21331"),
    "G8": Requirement(
        "Tools' names that a vendor refuses are short, unique, the same in every turn, and as before in the answer; `strict` refuses them",
        f"{FIELD}: btsouth/toolport#872, hnewcity/KiroaaS#24",
    ),
    "G9": Requirement(
        "The schema of a tool reaches a vendor that takes it unchanged, `$ref` and `$defs` included", f"{FIELD}: BerriAI/litellm#41639"
    ),
    "G10": Requirement(
        "A history's empty content reaches no strict provider as an empty block or null, and each drop is told",
        f"{FIELD}: maximhq/bifrost#2765",
    ),
    "G11": Requirement(
        "A signed thought goes back through a foreign client to its vendor to the byte; to another it does not, and that is told",
        f"{FIELD}: maximhq/bifrost#6342",
    ),
    "G12": Requirement("Cache marks stay where they stood", f"{FIELD}: maximhq/bifrost#7336"),
    "G13": Requirement(
        "The output limit arrives under the provider's name for it; a parameter that a model refuses is left out and told, or refused in strict",
        f"{FIELD}: BerriAI/litellm#13381, maximhq/bifrost#6132",
    ),
    "G14": Requirement(
        "A 429 benches its target for as long as it says, and the caller gets the shortest wait", f"{FIELD}: BerriAI/litellm#27823"
    ),
    "G16": Requirement("The same work costs the same buckets, in whichever format it is told", f"{FIELD}: langwatch/langwatch#7018"),
    "G18": Requirement(
        "A caller that leaves ends the upstream call within a second, and frees its slot", f"{FIELD}: BerriAI/litellm#37140"
    ),
    "G19": Requirement("No secret is in a log line or an error, however it is spelled", f"{FIELD}: BerriAI/litellm#30670"),
    "G20": Requirement(
        "An address that no provider has is refused at dial time, and no redirect is followed", f"{FIELD}: BerriAI/litellm#24952"
    ),
    "G21": Requirement(
        "A Messages stream without `message_start` is repaired where the record says so, else an error", f"{FIELD}: llama.cpp server"
    ),
    "D2": Requirement(
        "What an extension prints, at import or in a call, is in its log and spoils no call",
        f"{FIELD}: espressif/esp-idf#19087, justrach/codedb#304, hurttlocker/o8#1541",
    ),
    "D3": Requirement(
        "A result that is too large fails its own call, and nothing else",
        f"{FIELD}: MoonshotAI/kimi-cli#831, agentclientprotocol/python-sdk#27",
    ),
    "D4": Requirement(
        "An answer after the deadline is dropped and counted, and the next call is well", f"{FIELD}: strands-agents/harness-sdk#1221"
    ),
    "D5": Requirement(
        "An extension that raises when it is activated fails alone, with its reason",
        f"{FIELD}: aaif-goose/goose#11493, ephraimduncan/opencode-cursor#15",
    ),
    # ----------------------------------------------------------------------------------------------------------- pass-through
    "bytes.request": Requirement("A request goes out as it came but for the model's name and `stream_options`", PROMISE),
    "bytes.reply": Requirement("A reply comes back as the provider wrote it", PROMISE),
    "bytes.stream": Requirement(
        "A stream comes back as the provider wrote it, at once, but for a usage chunk that only we asked for", PROMISE
    ),
    "stream.any-split": Requirement("However a stream's bytes are cut, it reads the same", PROMISE),
    "stream.grammar": Requirement("Every stream that goes out obeys its dialect's grammar", PROMISE),
    "stream.never-clean": Requirement("A failure after the first byte is an error event, never a clean end", PROMISE),
    # ----------------------------------------------------------------------------------------------------------- translation
    "translation.loop": Requirement(
        "Three SDKs go through tool loops with providers of all three formats: thoughts, parallel calls, pictures, JSON by a schema, usage",
        PROMISE,
    ),
    "translation.free-form": Requirement(
        "A free-form tool is a function for a model of another format, and its calls are free-form for the client; of one that is cut nothing can be run",
        PROMISE,
    ),
    "translation.groups": Requirement(
        "Tools of a group are functions for a model of another format, and their calls are in the group for the client", PROMISE
    ),
    "translation.limits": Requirement(
        "What a client says as usual and another vendor refuses (long ids and users, the developer, a choice of nothing) goes in a form that is taken",
        PROMISE,
    ),
    "translation.count": Requirement("Tokens are counted here, and the count says so, where a provider cannot", PROMISE),
    "losses.all": Requirement("Nothing that is asked is in neither the translated request nor its losses", PROMISE),
    "losses.told": Requirement("Losses are in `X-Losses`, the log and a metric, and in the stream where the caller asks for that", PROMISE),
    "losses.rules": Requirement("What leaves out content or tools is refused, unless the route allows it; `strict` refuses more", PROMISE),
    "stream.keep-alive": Requirement("A provider's signs of life go on in a form that the caller's SDK accepts", PROMISE),
    "stream.grace": Requirement("A reply that is complete ends, though its provider forgets the mark of the end", PROMISE),
    "counters.window": Requirement("A counter does as a model says, in memory and on a server, until its window ends", PROMISE),
    "counters.cap": Requirement("What is counted under a cap never passes it, over all processes and their blocks in sum", PROMISE),
    "lease.one": Requirement(
        "Of a lease there are never two holders, whatever is cut, stopped or killed; each has a higher token than all before", PROMISE
    ),
    "shared.outage": Requirement(
        "While the shared store is away, what needs it fails at once and all else goes on; it is used again without a restart", PROMISE
    ),
    "backup.whole": Requirement(
        "A backup has all rows of one moment and goes from either database into either, all of it or nothing", "docs/guides/backup.md"
    ),
    "backup.sealed": Requirement("A backup that was cut, changed or mixed up does not open", "docs/guides/backup.md"),
    "store-outage": Requirement(
        "While the database is away known keys work for at most five seconds, then it is 503; nothing queued is lost; no restart is needed",
        PROMISE,
    ),
    "store-codes": Requirement("A full disk and a database that is read-only have codes of their own", PROMISE),
    "stored": Requirement(
        "The id of a stored response leads home: to go on from, to read, to cancel and to delete; an unknown one is not found",
        "docs/decisions/0007-stored-responses.md",
    ),
    "embeddings": Requirement("Embeddings pass as they are, and their usage is known", PROMISE),
    "speech": Requirement(
        "Speech passes as it arrives, sound and events; before its first byte the next target takes over",
        PROMISE,
    ),
    "speech.never-whole": Requirement(
        "Sound that fails after its first byte ends with its connection, never as if it were whole", "daemon contract, K2"
    ),
    # ------------------------------------------------------------------------------------------------------------------- SDKs
    "sdk.openai": Requirement("OpenAI's SDK works: chat, stream, tools, usage, errors, cancellation, models", PROMISE),
    "sdk.anthropic": Requirement("Anthropic's SDK works: messages, stream, tools, usage, errors, token count, models", PROMISE),
    "local.model": Requirement("A real model on this machine answers the OpenAI SDK", PROMISE),
    # --------------------------------------------------------------------------------------------------------------- upstream
    "failover": Requirement("Before anything was shown the next target takes over; after it none does", PROMISE),
    "headers": Requirement("Only listed headers pass: never hop-by-hop, cookies or our credentials", PROMISE),
    "connections": Requirement("Connections to a provider are used again, and one that ended meanwhile is no failure", PROMISE),
    "deadlines": Requirement("Connect, first byte and silence each have a deadline and an error that says which", PROMISE),
    # ------------------------------------------------------------------------------------------------------------------ vault
    "vault.sealed": Requirement("A stored secret opens only with its key, to the byte as it was sealed", "docs/guides/credentials.md"),
    "vault.bound": Requirement("A stored secret opens only for its owner, name and id: copied onto another row it does not", PROMISE),
    "vault.unread": Requirement(
        "A stored secret and the vault's key are in no log, error, metric, row or answer", "docs/guides/credentials.md"
    ),
    "vault.key-alone": Requirement("The vault's key is its owner's alone from its first byte, and else refused", PROMISE),
    "vault.rotation": Requirement(
        "A rotation that is killed at any step loses nothing, and goes on; running servers notice it", "docs/guides/credentials.md"
    ),
    "credentials.choice": Requirement(
        "A call goes out with a credential of its most specific owner, by weight, that does not rest", "docs/guides/credentials.md"
    ),
    "credentials.rest": Requirement(
        "A credential that is refused or busy rests, and another one of its provider serves the same call", "docs/guides/credentials.md"
    ),
    # ----------------------------------------------------------------------------------------------------- trunkline daemon
    "export.bytes": Requirement(
        "A product's call reaches one of our providers in its own format as it came, but for the model; its answer comes back as it is",
        "daemon contract, A2, B1, C2",
    ),
    "export.credentials": Requirement(
        "`trunkline daemon` calls a provider with the product's credential or with none, never with one that is configured or stored",
        "daemon contract, E6, H3, H5",
    ),
    "export.failures": Requirement(
        "A product gets the provider's own status, a cleaned reason and Retry-After; what is cut never ends cleanly",
        "daemon contract, C4, D5",
    ),
    "export.time": Requirement(
        "`X-Timeout` bounds the wait and each pause, never the whole; a product that leaves ends the provider's call",
        "daemon contract, C1, C5",
    ),
    "export.models": Requirement("Each row of a list names the surfaces that its model serves", "daemon contract, D4b"),
    "export.closed": Requirement(
        "`trunkline daemon` without a secret is for this machine alone; with one nobody comes in without it", "daemon contract, H1"
    ),
    "export.conforms": Requirement("The conformance checks of the SDK find nothing in `trunkline daemon`", "daemon contract, I"),
    "export.go": Requirement("A Go product uses our providers through `trunkline daemon`", "daemon contract, J"),
    # ----------------------------------------------------------------------------------------------------- people's sign-ins
    "connections.store": Requirement(
        "A sign-in is kept sealed, under revisions that never come back, and renewed under a lease, on either database",
        "daemon contract, E3 and E4",
    ),
    "connections.once": Requirement(
        "Among all calls and processes a sign-in is renewed once an expiry, and what came of it is never lost nor put over a newer one",
        "daemon contract, E4",
    ),
    "connections.killed": Requirement(
        "A process that is killed while it renews costs no sign-in where the daemon remembers its answer; else its owner signs in again",
        "daemon contract, K9",
    ),
    "connections.revoked": Requirement(
        "A sign-in that the provider refuses for good is used no more, nor another owner's in its place, and can be recovered for a day",
        "daemon contract, K8",
    ),
    "connections.keys": Requirement("An API key is never renewed", "daemon contract, E5"),
    "connections.unread": Requirement("No token of a sign-in is in a log, error, metric, row, representation or listing", PROMISE),
    # ---------------------------------------------------------------------------------------------- providers behind daemons
    "daemon.calls": Requirement(
        "A call to a provider behind a daemon goes out on its surface with its body, model and deadline, and comes back record by record",
        "daemon contract, A2, A3, C1, C2",
    ),
    "daemon.headers": Requirement(
        "Nothing of a caller's headers reaches a daemon, nor a daemon's protocol headers a caller", "daemon contract, H5"
    ),
    "daemon.errors": Requirement(
        "A daemon's failures are those of any provider; a wrong secret is the operator's affair, and renews no sign-in",
        "daemon contract, D2, K1, K3, K4, K5",
    ),
    "daemon.renewal": Requirement(
        "A sign-in that the provider refuses with 401 is renewed once and the call repeated once; a key never", "daemon contract, E5"
    ),
    "daemon.losses": Requirement(
        "What a daemon loses is told beside our own losses, and judged by the contract's rules where the configuration says so",
        "daemon contract, B4",
    ),
    "daemon.circuit": Requirement(
        "A provider behind a daemon rests with all its models; a target that says no answers", "daemon contract, F"
    ),
    "daemon.repeats": Requirement(
        "A provider that broke off is asked the same once more only where nothing is kept, paid for or done twice", "daemon contract, F"
    ),
    "daemon.missing": Requirement(
        "A call that needs a sign-in is refused with the link to it; where none is needed none is sent", "daemon contract, E1, E5"
    ),
    "daemon.speech": Requirement("Speech of a provider behind a daemon comes as it arrives, with its type", "daemon contract, B1"),
    # ----------------------------------------------------------------------------------------------------------------- server
    "deny": Requirement("Nothing but health, and a page that knows nothing, answers without a key", PROMISE),
    "revocation": Requirement(
        "A key that is revoked, or whose account or user is disabled, is refused within a second over the bus and within five without it; "
        "its open streams end with an error event",
        PROMISE,
    ),
    "models.allowed": Requirement(
        "A key calls and lists the models that it has, no route leads it to another, and the refusal names both", PROMISE
    ),
    "end-users": Requirement(
        "A key that acts for end users takes whom the request names, by header, `user` or `metadata.user_id`; unknown ones are refused or made",
        PROMISE,
    ),
    "errors.native": Requirement("Each dialect writes the same error in its clients' shape, with the request id", PROMISE),
    "limits": Requirement("Heads, bodies and unfolded bodies are bounded, and the error has the number", PROMISE),
    "admin.routes": Requirement("Every route of the server says who may, and nobody else may, whatever the scope and the role", PROMISE),
    "sign-in.methods": Requirement(
        "People sign in by device, browser and manual over REST: approval, denial, expiry, another sign-in's state and a refused code end as "
        "the contract says",
        "daemon contract, G2",
    ),
    "sign-in.once": Requirement(
        "A code is tried once, whatever comes of it; unknown, somebody else's and used-up sign-ins look the same", "daemon contract, G2, H6"
    ),
    "sign-in.sealed": Requirement(
        "What is secret of a sign-in is readable in no row, answer, error or line of the log", "daemon contract, H3"
    ),
    "sign-in.owners": Requirement(
        "A person connects, sees and ends what is their own, an administrator what is the account's, and nobody another's",
        "docs/decisions/0015-sign-ins.md",
    ),
    "sign-in.audit": Requirement("Who connected, disconnected and was refused what, and whose, is a line of the log", PROMISE),
    "sign-in.page": Requirement(
        "Without a terminal one signs in on a page that keeps the key in memory alone, and talks to this server alone", PROMISE
    ),
    "sign-in.link": Requirement("Who needs a sign-in is told where: at the public address, or where the server listens", PROMISE),
    "admin.hidden": Requirement("Of what another account has nobody learns from an answer that it is there", PROMISE),
    "admin.contract": Requirement("The admin API answers as its OpenAPI document says, whatever it is asked", PROMISE),
    "admin.commands": Requirement("Every resource of the admin API has its commands, for the server here and for one elsewhere", PROMISE),
    "admin.secrets": Requirement("No secret is in an answer, an error, an example, a row or a line of the log of the admin API", PROMISE),
    "exchanges": Requirement("Each call of a known caller leaves a row, with what became of it and without what was said", PROMISE),
    "drain": Requirement("A stopped server lets calls go on for a while, then ends streams with a native error event", PROMISE),
    "reload": Requirement("A reload drops no request", PROMISE),
    "readme": Requirement("The README's configuration and snippets run", PROMISE),
    # ------------------------------------------------------------------------------------------------- signing in from a terminal
    "connect.device": Requirement(
        "A code is shown and waited for as slowly as the provider wants; trouble on the way does not end the wait, refusal and age do",
        "daemon contract, G2; RFC 8628, section 3.5",
    ),
    "connect.browser": Requirement(
        "A browser comes back to one address of this machine, with PKCE and its state; a redirect of another sign-in ends nothing",
        "daemon contract, G2; RFC 7636; RFC 8252, section 7.3",
    ),
    "connect.manual": Requirement(
        "A code or the whole address is pasted, and a slip may be mended; a code counts once", "daemon contract, G2"
    ),
    "connect.page": Requirement(
        "A person without a terminal signs in on a page that keeps no key, asks nobody but its server and follows the link of an error",
        "docs/guides/sign-in.md",
    ),
    "connect.token": Requirement(
        "A token is read from a file, from stdin or unseen from a terminal, and never shown", "daemon contract, E1, H3"
    ),
    # -------------------------------------------------------------------------------------------------------------- catalogue
    "price.exact": Requirement(
        "A cost is the exact sum over all buckets, divided once and rounded up; a tier holds for the whole call; what has no price is unknown",
        "docs/guides/models.md",
    ),
    "catalog.sources": Requirement(
        "Every price and every card that comes with a version has its source and its date", "docs/guides/models.md"
    ),
    "catalog.card": Requirement(
        "What is known of a model is heeded without configuration: refused parameters are left out and told", "docs/guides/models.md"
    ),
    "catalog.order": Requirement(
        "The configuration's file counts before the operator's overrides, these before the provider's list, and that before our files",
        "docs/decisions/0011-what-is-known-of-a-model.md",
    ),
    "catalog.discovery": Requirement(
        "What a provider lists can be called by its bare name; a look that fails keeps the old list, marked stale, and tells no word of it",
        "daemon contract, F",
    ),
    "catalog.fence": Requirement("What a look shows that has been overtaken is refused", "daemon contract, F"),
    # ------------------------------------------------------------------------------------------------------ extensions, kept apart
    "sandbox.probes": Requirement(
        "A worker reads its folder and the interpreter's files, and reaches nothing of the host, as root and as an ordinary user",
        "docs/guides/sandbox.md",
    ),
    "sandbox.report": Requirement(
        "What the report of a sandbox says is what attempts from within came to, at the policy's first use", "docs/guides/sandbox.md"
    ),
    "sandbox.tiers": Requirement(
        "Below a tier no extension runs unless it is allowed by name; what a tier leaves open is named", "docs/guides/sandbox.md"
    ),
    "sandbox.limits": Requirement(
        "Memory, CPU, processes and disk of a worker have limits that it cannot get around", "docs/guides/sandbox.md"
    ),
    "sandbox.warm": Requirement(
        "The warm interpreter knows nothing of workers, forks none that is not in its sandbox, and is started anew when it has ended",
        "docs/decisions/0019-sandbox.md",
    ),
    "sandbox.lifetime": Requirement(
        "No worker, and nothing that one forked, outlives the host or itself by a second, in tiers A to C",
        f"{FIELD}: modelcontextprotocol/python-sdk#2231",
    ),
    "host.files": Requirement(
        "A path that an extension names leads to no file outside its folder, over no link, also to what is not there yet",
        "docs/decisions/0019-sandbox.md",
    ),
    "catalog.listing": Requirement(
        "`GET /v1/models` has prices, limits and ends, and is written only when they change", "Switchboard contract, A.2"
    ),
    # ---------------------------------------------------------------------------------------------------------------- daemons
    "daemon.providers": Requirement(
        "Every provider behind an extension daemon is one here, with the surfaces and the kind of credential that `info` tells",
        "daemon contract, A9, B",
    ),
    "daemon.looks": Requirement("A daemon is asked at once, then every minute; one that fails soon again, and then less often", PROMISE),
    "daemon.names": Requirement(
        "`x/served/model` always, `served/model` where only one daemon serves it and nothing configured has that name; a route may name it before",
        "docs/guides/use-a-daemon.md",
    ),
    "daemon.surfaces": Requirement(
        "A call goes out through the caller's own surface where model and provider have it; a model that says which it has, has no other",
        "daemon contract, B2, B3, K16",
    ),
    "daemon.models": Requirement(
        "A daemon's models are listed with the credential that calls have; a refused sign-in is renewed once, an API key never",
        "daemon contract, B2, E5",
    ),
    "daemon.rows": Requirement("A bad row costs that row, and is told", "daemon contract, K11"),
    "daemon.secret": Requirement("A wrong secret of a daemon is the operator's error, and renews no sign-in", "daemon contract, K1"),
    "daemon.exposure": Requirement(
        "A daemon beyond this machine needs TLS, or a word, and a secret; its address is judged as any provider's",
        "daemon contract, H1, H2",
    ),
    "daemon.tls": Requirement("A daemon's certificate is held to its CA and its pins before a byte is sent", "docs/guides/use-a-daemon.md"),
    "daemon.told": Requirement("The operator sees how it stands with each daemon and what it serves, and no secret", PROMISE),
    # --------------------------------------------------------------------------------------------------------- extensions' workers
    "worker.life": Requirement(
        "A worker tells what was done to it, says when its extension is active and to what it answers, and ends when it is told to",
        "extension platform, A3.5-7, A4, W-5, W-30",
    ),
    "worker.reason": Requirement(
        "Why an extension does not run is told, with its line, and whether it would be so again",
        "extension platform, W-5; extension host, 4",
    ),
    "worker.stuck": Requirement(
        "While extension code keeps its loop, a worker answers pings, tells its lag, shows its stacks, and loses nothing",
        "extension host, 4",
    ),
    "worker.gone": Requirement(
        "A worker ends with its connection, whatever its code does, and at SIGTERM in any namespace", "extension host, 3c, 4"
    ),
    "worker.stream": Requirement(
        "A handler's stream goes on when the host has room for it, and is closed when nobody takes the rest",
        "extension host, 5; extension platform, W-7, W-10",
    ),
    "worker.protocol": Requirement(
        "Each call has one final answer and each stream one end, whatever comes, in whatever order, and however the bytes are cut",
        "extension host, 5; extension platform, W-7, W-9, W-10, W-30",
    ),
    "worker.bounded": Requirement(
        "What one end keeps of the other is bounded, whatever that one says, and whether or not it reads", "extension host, 5"
    ),
    "worker.warm": Requirement(
        "A worker that was forked from a warm interpreter is as one that was started; what is warm has started and opened nothing",
        "extension host, 3d; docs/decisions/0017-worker.md",
    ),
    "worker.guide": Requirement("The code in the guide for extensions runs", "docs/guides/extension-code.md"),
    # ------------------------------------------------------------------------------------------------------------- extensions
    "host.context": Requirement(
        "For whom a worker's request is made says the host: bound to a call, that call's user, and else nobody; it ends with its call",
        "extension contract, W-2, W-13; docs/guides/extension-requests.md",
    ),
    "host.grants": Requirement(
        "What an extension was not granted is refused before it runs, in one place",
        "extension contract, B2, C3; docs/guides/extension-requests.md",
    ),
    "host.network": Requirement(
        "A worker reaches granted hosts by the host alone, to the byte; what goes wrong has a code and tells no path",
        "extension contract, W-1; docs/guides/extension-requests.md",
    ),
    "host.addresses": Requirement(
        "Every address is judged when it is known, each time: none inside is reached that the operator's file does not name for that extension",
        "extension contract, W-3; docs/guides/extension-requests.md",
    ),
    "host.redirects": Requirement(
        "Every redirect is judged, five are followed, and no credential goes to another origin", "extension contract, W-3"
    ),
    "host.requests": Requirement(
        "A worker cannot say the headers of the connection, nor another host", "docs/guides/extension-requests.md"
    ),
    "host.limits": Requirement(
        "Answers, uploads, streams and times of a worker's requests are bounded; whoever leaves closes the socket",
        "extension contract, W-30; docs/guides/extension-requests.md",
    ),
    "host.streams": Requirement(
        "A stream is read as fast as the worker uses it, ends when nobody takes it, and tells how it ended",
        "extension contract, W-10, W-11",
    ),
    "host.rates": Requirement("Each method has its pace for each extension, over all its workers", "extension contract, W-30"),
    "host.log": Requirement(
        "An extension's log lines are bounded in number and size, steer no terminal, and what was dropped is counted",
        "extension contract, W-30",
    ),
    "host.lies": Requirement(
        "A worker that lies about numbers, answers, errors and frames harms no call but its own, and is told of in the log",
        "extension contract, W-30",
    ),
    "host.starving": Requirement(
        "A worker that floods the host, or never reads, is not read for a while, and holds up no other", "docs/guides/extension-requests.md"
    ),
    "supervisor.states": Requirement(
        "An extension's state follows from what happened, in every order; a process is there only in a state that says so, and never two",
        "extension host, 4; docs/guides/extensions.md",
    ),
    "supervisor.backoff": Requirement(
        "A crashed worker comes back later each time; the fifth crash in five minutes is told once, and then only a call has it tried",
        "extension host, 4; extension platform, W-6",
    ),
    "supervisor.activation": Requirement(
        "An extension is ready when it has said so; why it is not is told, and what would fail again is not tried again",
        "extension host, 4; extension platform, W-5; field case D5",
    ),
    "supervisor.apart": Requirement(
        "One extension that fails, hangs or ends delays no other, and fails no call but its own", "extension platform, W-9"
    ),
    "supervisor.calls": Requirement(
        "Calls in flight of a worker that ends fail at once; late answers are dropped; a call starts a worker that rests",
        "extension host, 4; extension platform, W-7; field case D4",
    ),
    "supervisor.watch": Requirement(
        "A worker that does not answer, whose loop stands still, or that holds too much memory is ended, with its stacks in its log",
        "extension host, 4",
    ),
    "supervisor.stop": Requirement("A worker is asked, then told, then killed; another one starts when it is reaped", "extension host, 4"),
    "supervisor.reload": Requirement(
        "A reload starts anew whose settings or code changed, also behind a link, tries again what had failed, and leaves the rest alone",
        "docs/guides/extensions.md",
    ),
    "supervisor.folder": Requirement(
        "No extension runs from a folder that shares files with the server's data folder",
        "extension host, 3b; docs/guides/extensions.md",
    ),
    "supervisor.orphans": Requirement(
        "Whenever a host or a worker is killed, nothing of it is left a second later", f"{FIELD}: modelcontextprotocol/python-sdk#2231"
    ),
    "supervisor.output": Requirement(
        "What a worker prints is in its own log, bounded by line, pace and size, and never in the protocol", "field case D2"
    ),
    "supervisor.many": Requirement("Fifty workers run at once", PROMISE),
    "supervisor.soak": Requirement(
        "Through use and faults the host holds no more memory, descriptors or children: minute ten is minute three, within 5 %",
        "decisions: memory flat",
    ),
    "extensions.api": Requirement(
        "The operator's file names extensions; the admin API and the metrics tell how it stands with each; a reload takes what changed",
        "docs/guides/extensions.md",
    ),
}
