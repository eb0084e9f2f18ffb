"""`log`: an extension's lines in the host's log."""

import logging
from typing import Any

from trunkline.base.codec import encode
from trunkline.base.log import Logger, printable
from trunkline.host.line import Line
from trunkline.host.methods import Group, Notice
from trunkline.host.rates import Rate
from trunkline_sdk.api import Context, LogLine

MOST_TEXT = 8192
"""Characters of a message."""

MOST_FIELDS = 4096
"""Bytes of a line's fields, as JSON; more are left out, and that is told."""

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Lines:
    """Writes them."""

    def __init__(self, log: Logger) -> None:
        self._log = log

    def write(self, extension: str, line: LogLine, call: Context | None) -> None:
        """Write one line of an extension, and for which call it was."""
        fields: dict[str, Any] = {} if call is None else {"call": call.call_id, "user": call.user}
        if line.fields:
            size = len(encode(line.fields))
            fields |= {"fields": line.fields} if size <= MOST_FIELDS else {"fields_left_out": size}
        self._log.log(LEVELS[line.level], "extension log", extension=extension, message=printable(line.message, MOST_TEXT), **fields)


def write(lines: Lines, line: Line, params: LogLine) -> None:
    """Write a line, under the name of whoever sent it."""
    lines.write(line.extension, params, None if params.call is None else line.context(params.call))


METHODS = Group(service=Lines, notices={"log": Notice(write, params=LogLine, rate=Rate(per_second=20, burst=200))})
