"""START HERE: `buddy` and `python -m buddy`. What needs no imports is answered without any."""

from __future__ import annotations

import atexit
import gc
import os
import sys


def main() -> int:
    """Run the program and return the exit code, unless it can leave at once."""
    gc.disable()  # a start makes no garbage, and looking for it took 15 ms; `collect_from_here` enables it
    code = _answered(sys.argv[1:])
    _leave(code)
    return code


def _answered(arguments: list[str]) -> int:
    if arguments in (["--version"], ["-V"], ["version"]):
        from buddy import __version__

        if sys.stdout is not None:
            sys.stdout.write(f"buddy {__version__}\n")
        return 0
    from buddy.cli.main import run  # after --version: it costs 20 ms and more

    return run(arguments)


def _leave(code: int) -> None:
    """Leave without taking the interpreter down: that is 30 ms for hundreds of modules, and a deadlock where
    a thread still imports litellm, whose objects import again when they are deleted (every second run that
    failed within a second of the import).

    What was written is flushed; what is registered for the end is done, unless a thread is left behind, which
    may hold what that needs. Where a thread is to be waited for, or somebody watches (a debugger, coverage),
    this returns and the interpreter ends as usual."""
    threading = sys.modules.get("threading")
    others = [one for one in threading.enumerate() if one is not threading.main_thread()] if threading else []
    if any(not one.daemon for one in others) or _is_watched():
        return
    if not others:
        # What the interpreter itself calls, and multiprocessing.
        atexit._run_exitfuncs()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no public way
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except (OSError, ValueError) as error:
                if stream is sys.stdout and not code:  # otherwise something has been said already
                    _tell_unwritten(error)
                    code = 1
    os._exit(code)


def _tell_unwritten(error: OSError | ValueError) -> None:
    """Say that stdout is not whole, unless whoever read it is gone."""
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError) and sys.stderr is not None:
        sys.stderr.write(f"buddy: standard output: {error.strerror}\n")


def _is_watched() -> bool:
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)  # from Python 3.12 on
    return monitoring is not None and any(monitoring.get_tool(number) for number in range(6))


def _import_nothing_from_here() -> None:
    """`python -m` looks for modules in the working directory before anywhere else: a project whose files are
    named like modules of the library would run before anybody trusts it. A checkout of buddy itself is where
    buddy comes from, and stays."""
    own = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    first = sys.path[0] if sys.path else own
    if not sys.flags.safe_path and os.path.realpath(first) != own:
        del sys.path[0]


if __name__ == "__main__":
    _import_nothing_from_here()
    sys.exit(main())
