"""A headless Chromium that reaches this machine alone (Debian's `chromium`, driven by the package `playwright`, which downloads none)."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import ConsoleMessage, Page, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    "--no-sandbox",  # a root's Chromium has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
_STATUS = "Failed to load resource: the server responded with a status of"  # tells of what a page may well handle
_PATIENCE = 20_000  # milliseconds


@contextmanager
def chromium(profile: Path) -> Generator[Page]:
    """A page of a browser with a new profile; at the end no page may have failed, or broken a policy, or asked for what there is not."""
    program = next(filter(None, map(shutil.which, PROGRAMS)))
    complaints: list[str] = []
    with sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(profile, executable_path=program, headless=True, args=list(_OPTIONS))
        try:
            context.set_default_timeout(_PATIENCE)
            page = context.pages[0]
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda message: _complaint(message, complaints))
            yield page
        finally:
            context.close()
    assert complaints == [], complaints


def _complaint(message: ConsoleMessage, complaints: list[str]) -> None:
    if message.type == "error" and not message.text.startswith(_STATUS):
        complaints.append(message.text)
