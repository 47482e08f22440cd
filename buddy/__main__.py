"""START HERE: `buddy` and `python -m buddy`. What needs no imports is answered without any."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """The program. Returns the exit code."""
    if sys.argv[1:] in (["--version"], ["-V"], ["version"]):
        from buddy import __version__

        sys.stdout.write(f"buddy {__version__}\n")
        return 0
    from buddy.cli.main import run  # after --version: it costs 20 ms and more

    code = run(sys.argv[1:])
    _leave_at_once_if_an_import_runs(code)
    return code


def _leave_at_once_if_an_import_runs(code: int) -> None:
    """Leave without taking the interpreter down when a daemon thread is left: it may be importing litellm,
    whose objects import again when they are deleted. Both wait for the import lock then, for ever: every
    second run that failed within a second of the import. All that matters is on the disk by now."""
    threading = sys.modules.get("threading")
    if threading is None or not any(thread.daemon for thread in threading.enumerate()):
        return
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # pyright: ignore[reportUnnecessaryComparison] - it is when it was closed
            try:
                stream.flush()
            except OSError:
                code = code or 1  # whoever read it is gone
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
