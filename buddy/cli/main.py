"""The choice of a front end for a command line, and of the exit code for every ending."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from buddy import __version__
from buddy.app.options import Options, UsageError
from buddy.app.stderr import tell
from buddy.cli.arguments import parse

CONFIGURATION = 4
USAGE = 2
CLOSED_PIPE = 141
"""The shell's code for a program ended by SIGPIPE: the reader of stdout closed it."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def run(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Run buddy with these arguments and return the exit code; report errors in one line."""
    _open_closed_streams()
    variables = os.environ if environment is None else environment
    sys.excepthook = _crash_hook(variables, in_detail=False)
    try:
        options = parse(arguments)
        sys.excepthook = _crash_hook(variables, in_detail=options.debug)
        if options.help:
            return _show_usage(options, variables, 0)
        if options.version:
            sys.stdout.write(f"buddy {__version__}\n")
            return 0
        return _dispatch(options, variables)
    except UsageError as error:
        return _fail(str(error), USAGE)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return CLOSED_PIPE
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        return _fail(f"not everything could be written: {error.strerror}", 1)


def _dispatch(options: Options, environment: Mapping[str, str]) -> int:
    """Run the command. Each branch imports only what it needs: `buddy exec` must not load the terminal, nor
    the terminal the models."""
    match options.command:
        case "help":
            from buddy.cli.manual import show_help

            return show_help(options, environment)
        case "init":
            from buddy.cli.setup import init

            return init(options, environment)
        case "login":
            from buddy.cli.setup import login

            return login(options, environment)
        case "models":
            from buddy.cli.setup import models

            return models(options, environment)
        case "sessions":
            from buddy.cli.setup import sessions

            return sessions(options, environment)
        case "doctor":
            from buddy.cli.doctor import doctor

            return doctor(options, environment)
        case "mcp":
            from buddy.cli.mcp import mcp

            return mcp(options, environment)
        case "plugin":
            from buddy.cli.plugins import plugin

            return plugin(options, environment)
        case "acp":
            return _serve_editor(options, environment)
        case "serve":
            from buddy.cli.serve import run_serve  # with the HTTP server, 80 ms

            return run_serve(options, environment)
        case "permissions":
            from buddy.cli.permissions import permissions
            from buddy.config.settings import ConfigError

            try:
                return permissions(options, environment)
            except ConfigError as error:
                return _fail(str(error), CONFIGURATION)
        case "import":
            from buddy.cli.imports import import_settings

            return import_settings(options, environment)
        case "new":
            from buddy.cli.new import new_project

            return new_project(options, environment)
        case "completion":
            from buddy.cli.completion import completion

            return completion(options, environment)
        case "demo":
            with _hold_keys(environment, is_wanted=not options.plain) as modes:
                from buddy.cli.demo import demo

                return demo(options, environment, modes)
        case _:
            return _work(options, environment)


def _serve_editor(options: Options, environment: Mapping[str, str]) -> int:
    try:
        importlib.import_module("acp.schema")  # the extra, which many installations lack
    except ImportError:
        return _fail('buddy acp needs the extra "acp": pip install "buddy-repl[acp]"', CONFIGURATION)
    from buddy.cli.acp import run_acp  # imported here: half a second that only editors wait for
    from buddy.config.settings import ConfigError

    try:
        return run_acp(options, environment)
    except ConfigError as error:
        return _fail(str(error), CONFIGURATION)


def _work(options: Options, environment: Mapping[str, str]) -> int:
    if options.allow:
        _check_allowed(options.allow)
    # A program's own servers are taken out first, and problems of the others noted.
    if options.mcp_config and options.input_format != "stream-json":
        _check_servers(options.mcp_config)
    is_typed = sys.stdin.isatty()
    if options.command == "exec" or options.print or not (is_typed and sys.stdout.isatty()):
        if options.command != "exec" and not options.print and not options.words and is_typed:
            return _show_usage(options, environment, USAGE)
        from buddy.cli.headless import run_headless

        return run_headless(options, environment)
    if options.command == "resume" and not (options.words or options.resume or options.resume_last):
        options = _pick_session(options, environment)
    with _hold_keys(environment, is_wanted=not options.plain) as modes:
        from buddy.cli.interactive import run_interactive

        return run_interactive(options, environment, modes)


def _show_usage(options: Options, environment: Mapping[str, str], code: int) -> int:
    from buddy.cli.command_help import show_usage  # imported here: most runs show no help

    show_usage(options, environment)
    return code


def _pick_session(options: Options, environment: Mapping[str, str]) -> Options:
    """Return the options with the session the user chose. Raises `UsageError`."""
    import msgspec  # imported here: only needed for the choice

    from buddy.cli.setup import pick_session
    from buddy.config.settings import ConfigError

    try:
        return msgspec.structs.replace(options, resume=pick_session(options, environment))
    except ConfigError as error:
        raise UsageError(str(error)) from error


def _check_allowed(entries: Sequence[str]) -> None:
    """Raise `UsageError` for an invalid rule before any model is asked."""
    from buddy.safety.policy.rules_loading import rules_of_claude  # only needed with the option

    for problem in rules_of_claude({"allow": list(entries)}, "user", "--allow").errors:
        raise UsageError(problem)


def _check_servers(given: Sequence[str]) -> None:
    """Raise `UsageError` for servers that can't be used before any model is asked."""
    from buddy.extend.mcp.sources import Sources, find_servers  # only needed with the option

    for problem in find_servers(Sources("", "", given=tuple(given), strict=True)).problems:
        raise UsageError(problem)


def _hold_keys(
    environment: Mapping[str, str], *, is_wanted: bool
) -> contextlib.AbstractContextManager[list[Any] | None]:
    """Hold the keys typed during the imports for the input line. A dumb terminal has none: it echoes and
    edits itself."""
    is_dumb = environment.get("TERM", "") in ("dumb", "unknown", "")
    if is_dumb or not (is_wanted and sys.stdin.isatty() and sys.stdout.isatty()):
        return contextlib.nullcontext()
    from buddy.cli.early_keys import hold_keys  # only where there is a terminal

    return hold_keys(sys.stdin.fileno())


def _open_closed_streams() -> None:
    """Open closed standard streams on /dev/null.

    Otherwise the first files of a session would get their descriptors, and with them everything written to
    stdout. Python sets its stream objects to None then.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor, which is this one
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - lives as long as the program


_KEY_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")


def _crash_hook(
    environment: Mapping[str, str], *, in_detail: bool
) -> Callable[[type[BaseException], BaseException, TracebackType | None], None]:
    """Return a `sys.excepthook` that prints where a crash happened, without variables and without the keys of
    the environment; `in_detail` adds the surrounding source."""

    def report_crash(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
        if in_detail:
            from buddy.cli.traceback_text import traceback_text as report  # 60 ms, only needed for a crash
        else:
            from buddy.safety.crash_report import crash_report as report

        keys = [value for name, value in environment.items() if name.upper().endswith(_KEY_NAMES)]
        tell("buddy crashed. This is a bug in buddy, not your mistake.\n")
        tell(report(error, keys))

    return report_crash


def _fail(text: str, code: int) -> int:
    tell(f"buddy: {text}\n")
    return code


def _silence_stdout() -> None:
    """Point stdout at /dev/null: its reader is gone, and Python would report that again when it flushes at
    exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
