"""The traceback of a crash for `--debug`, formatted by rich: source lines around each frame, no variables."""

from __future__ import annotations

import linecache
import shutil
from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.traceback import Trace, Traceback

from buddy.safety.crash_report import crash_report
from buddy.safety.sanitise import clean
from buddy.safety.secrets.redact import redact

_AROUND = 3


def traceback_text(error: BaseException, keys: Sequence[str] = ()) -> str:
    """Return the traceback as plain text, with keys redacted and without control sequences."""
    trace = Traceback.extract(type(error), error, error.__traceback__, show_locals=False)
    for stack in trace.stacks:
        stack.exc_value = clean(redact(stack.exc_value, keys))
        stack.notes = [clean(redact(note, keys)) for note in stack.notes]
        stack.syntax_error = None  # rich would print its line unredacted
    if _shows_secret(trace, keys):
        return crash_report(error, keys)
    columns = shutil.get_terminal_size().columns
    console = Console(file=StringIO(), width=columns, color_system=None, legacy_windows=False, emoji=False)
    with console.capture() as captured:
        console.print(Traceback(trace, width=columns, show_locals=False, extra_lines=_AROUND))
    return clean(redact(captured.get(), keys), blank_lines=0)


def _shows_secret(trace: Trace, keys: Sequence[str]) -> bool:
    """Tell whether a source line contains a secret: rich crops lines, and a cropped secret would not be
    recognised."""
    frames = (frame for stack in trace.stacks for frame in stack.frames)
    near = (
        linecache.getlines(frame.filename)[max(frame.lineno - 9, 0) : frame.lineno + 9] for frame in frames
    )
    return any((text := "".join(lines)) != redact(text, keys) for lines in near)
