"""Workers whose code does not run, or breaks: the host is told why, and whether it would break again."""

import asyncio
import re
from contextlib import AsyncExitStack

import pytest

from sdk.tests.worker.host import Starts
from trunkline_sdk.rpc.errors import RpcError


async def refused(starts: Starts, code: str, **files: str) -> tuple[RpcError, str]:
    """Why an extension is not activated, and what it wrote. The worker lives, and can be asked to end."""
    async with starts(code, **files) as worker:
        with pytest.raises(RpcError) as caught:
            await worker.ask("activate")
        assert await worker.ask("deactivate") is None
        assert await worker.ends() == 0
        return caught.value, worker.said


@pytest.mark.proves("worker.reason")
@pytest.mark.parametrize(
    ("code", "stage", "message", "at"),
    [
        ("import nowhere_to_be_found", "import", "ModuleNotFoundError: No module named 'nowhere_to_be_found' (main.py:1)", "main.py:1"),
        ("x = 1\ndef activate(:\n", "import", "SyntaxError: invalid syntax (main.py:2)", "main.py:2"),
        ("import beside", "import", "ZeroDivisionError: division by zero (beside.py:2)", "beside.py:2"),
        ("import sys\nsys.exit(3)", "import", "SystemExit: 3 (main.py:2)", "main.py:2"),
        ("raise SyntaxError", "import", "SyntaxError: None (main.py:1)", "main.py:1"),
        ("activate = 1", "entry", "TypeError: the main file has no function `activate`", ""),
        ("def activate(context):\n    raise ValueError('no\\n  key')", "activate", "ValueError: no key (main.py:2)", "main.py:2"),
        ("async def activate(context):\n    1 / 0", "activate", "ZeroDivisionError: division by zero (main.py:2)", "main.py:2"),
        ("async def activate(context):\n    raise SystemExit", "activate", "SystemExit (main.py:2)", "main.py:2"),
        ("def activate(context):\n    raise ValueError('x' * 9000)", "activate", f"ValueError: {'x' * 500} (main.py:2)", "main.py:2"),
    ],
    ids=[
        "missing module",
        "syntax",
        "module beside it",
        "exit at import",
        "no message",
        "no activate",
        "raised",
        "raised later",
        "exit later",
        "long",
    ],
)
async def test_why_an_extension_does_not_run_is_told_and_would_be_so_again(
    starts: Starts, code: str, stage: str, message: str, at: str
) -> None:
    error, said = await refused(starts, code, beside="def f(): return 1\nf() / 0\n")
    assert (error.code, error.message, error.retryable) == ("failed", message, False)
    assert error.details == {"stage": stage, "error": re.split("[: ]", message, maxsplit=1)[0], "at": at}
    assert error.details["error"] in said, "the extension's log has the whole of it"


async def test_a_main_file_that_is_not_there_is_told(starts: Starts) -> None:
    async with starts.bare("", name="other.py") as worker:
        await worker.meet()
        with pytest.raises(RpcError, match="FileNotFoundError"):
            await worker.ask("activate")


@pytest.mark.parametrize(
    ("raised", "retryable"),
    [
        ("MemoryError()", True),
        ("RpcError('deadline_exceeded', 'too late')", True),
        ("RpcError('failed', 'later', retryable=True)", True),
        ("RpcError('permission_denied', 'no')", False),
    ],
)
async def test_what_may_go_well_later_is_told_so(starts: Starts, raised: str, retryable: bool) -> None:
    code = f"from trunkline_sdk.rpc.errors import RpcError\ndef activate(context):\n    raise {raised}\n"
    error, _ = await refused(starts, code)
    assert error.retryable is retryable


@pytest.mark.proves("D5")
async def test_d5_of_three_extensions_the_one_that_raises_fails_alone_and_is_told_so_for_good(starts: Starts) -> None:
    well = "def activate(context):\n    context.handle('hi', lambda params, call: 'hi')\n"
    bad = "def activate(context):\n    raise RuntimeError('the middle one')\n"
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(starts(code)) for code in (well, bad, well)]
        results = await asyncio.gather(*(worker.ask("activate") for worker in workers), return_exceptions=True)
        first, middle, last = results
        assert first == last == {"registered": ["hi"]}
        assert isinstance(middle, RpcError)
        assert (middle.message, middle.retryable) == ("RuntimeError: the middle one (main.py:2)", False)
        assert [await workers[0].call("hi"), await workers[2].call("hi")] == ["hi", "hi"]


async def test_a_crash_at_import_ends_the_call_and_leaves_a_stack(starts: Starts) -> None:
    async with starts("import ctypes\nctypes.string_at(0)\n") as worker:
        with pytest.raises(RpcError) as gone:
            await worker.ask("activate")
        assert gone.value.code == "worker_exited"
        assert await worker.ends() == -11
        assert "Segmentation fault" in worker.said
        assert "main.py" in worker.said


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("raise ValueError('secret-text')", "ValueError"),
        ("raise SystemExit(4)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise Unprintable", "Unprintable"),
        ("return object()", "TypeError"),
    ],
)
async def test_a_handler_that_breaks_fails_its_call_alone_and_keeps_its_words_to_the_log(starts: Starts, body: str, error: str) -> None:
    code = f"""
        class Unprintable(Exception):
            def __str__(self):
                raise RuntimeError("no words")

        def activate(context):
            context.handle("broken", broken)
            context.handle("well", lambda params, call: params)

        async def broken(params, call):
            {body}
    """
    async with starts(code) as worker:
        await worker.ask("activate")
        with pytest.raises(RpcError) as failed:
            await worker.call("broken")
        assert failed.value.code == "failed"
        assert error in failed.value.message
        assert "secret-text" not in failed.value.message
        assert error in worker.said
        assert await worker.call("well", 1) == 1


@pytest.mark.parametrize("spoilt", ["sys.stderr.close()", "sys.stderr = Nothing()", "os.close(2)"])
async def test_a_call_fails_at_once_also_where_the_extension_has_spoilt_its_log(starts: Starts, spoilt: str) -> None:
    code = f"""
        import os, sys

        class Nothing:
            pass

        def activate(context):
            {spoilt}
            context.handle("broken", lambda params, call: 1 / 0)
    """
    async with starts(code) as worker:
        await worker.ask("activate")
        with pytest.raises(RpcError) as failed:
            await worker.call("broken")
        assert (failed.value.code, failed.value.message) == ("failed", "`broken` failed with ZeroDivisionError")


async def test_an_error_that_a_handler_means_reaches_the_caller(starts: Starts) -> None:
    code = """
        from trunkline_sdk.rpc.errors import RpcError

        def activate(context):
            def missing(params, call):
                raise RpcError("secret_missing", "set a key", details={"secret": "key"})

            context.handle("missing", missing)
    """
    async with starts(code) as worker:
        await worker.ask("activate")
        with pytest.raises(RpcError) as meant:
            await worker.call("missing")
        assert (meant.value.code, meant.value.message, meant.value.details) == ("secret_missing", "set a key", {"secret": "key"})


@pytest.mark.proves("D2")
async def test_d2_what_an_extension_prints_is_in_its_log_and_spoils_no_call(starts: Starts) -> None:
    code = """
        import os, sys

        print("✗ hi")

        def activate(context):
            context.handle("shout", shout)

        def shout(params, call):
            os.write(1, b"x" * 100_000)
            sys.stdout.write("\\ud800 no line end")
            print("an error", file=sys.stderr)
            return params
    """
    async with starts(code) as worker:
        await worker.ask("activate")
        assert [await worker.call("shout", n) for n in range(5)] == [0, 1, 2, 3, 4]
        assert worker.said.startswith("✗ hi\n" + "x" * 100_000)
        assert worker.said.count("an error\n") == 5
        assert await worker.ask("deactivate") is None
        assert worker.odd == []
        assert await worker.ends() == 0


@pytest.mark.proves("D3")
async def test_d3_a_result_of_200_kib_passes_and_one_of_9_mib_fails_its_call_alone(starts: Starts) -> None:
    async with starts("def activate(context):\n    context.handle('x', lambda params, call: 'x' * params)\n") as worker:
        await worker.ask("activate")
        assert len(await worker.call("x", 200 * 1024)) == 200 * 1024
        with pytest.raises(RpcError) as large:
            await worker.call("x", 9 * 1024 * 1024)
        assert large.value.code == "payload_too_large"
        assert await worker.call("x", 3) == "xxx"
        assert worker.odd == []


@pytest.mark.proves("D4")
async def test_d4_an_answer_that_comes_too_late_is_dropped_and_counted_and_the_next_call_is_well(starts: Starts) -> None:
    code = "import time\ndef activate(context):\n    context.handle('sleep', lambda params, call: time.sleep(params))\n"
    async with starts(code) as worker:
        await worker.ask("activate")
        with pytest.raises(RpcError) as late:
            await worker.call("sleep", 0.9, seconds=0.3)
        assert late.value.code == "deadline_exceeded"
        assert await worker.call("sleep", 0) is None
        assert (worker.channel.peer.late, worker.odd) == (1, [])


async def test_an_extension_hides_no_module_of_the_standard_library(starts: Starts) -> None:
    code = """
        import calendar
        import beside

        def activate(context):
            context.handle("which", lambda params, call: [hasattr(calendar, "monthrange"), beside.HERE])
    """
    async with starts(code, calendar="raise ValueError", beside="HERE = 1") as worker:
        await worker.ask("activate")
        assert await worker.call("which") == [True, 1]
