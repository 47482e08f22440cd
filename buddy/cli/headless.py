"""`buddy exec` and everything else that runs without a terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping

from buddy.agent.messages import UserPart
from buddy.agent.tool import ToolContext, ToolResult
from buddy.cli.arguments import Options, UsageError
from buddy.cli.desk import Desk, Wanted, open_desk
from buddy.cli.log import start_log
from buddy.cli.models import Models
from buddy.cli.place import Place, find_place, read_settings
from buddy.cli.stores import session_store
from buddy.config import ConfigError, Loaded
from buddy.extend.mentions import expand
from buddy.headless.exec import ExecRun, run_exec
from buddy.headless.exit_codes import CONFIGURATION, USAGE
from buddy.headless.formats import Format, JsonFormat, RunFacts, SseFormat, StreamJsonFormat, TextFormat
from buddy.safety.sanitise import one_line
from buddy.sessions.folder import FolderError
from buddy.sessions.journal import NotSavedError
from buddy.sessions.lock import LockedError
from buddy.sessions.store import SessionError
from buddy.tools.read import read_file

MAX_STDIN_CHARS = 1_000_000


def run_headless(options: Options, environment: Mapping[str, str]) -> int:
    """Run one prompt. Returns the exit code."""
    try:
        prompt = _prompt(options)
        place = find_place(options, environment)
        _check_yolo(options, environment)
        loaded = read_settings(place, options)
        if options.require_trust and not place.trusted:
            raise ConfigError(
                f"{place.boundary.root} is not trusted; start buddy there once, or give --trust"
            )
        start_log(place.where, debug=options.debug)
        return asyncio.run(_run(options, place, loaded, prompt))
    except ConfigError as error:
        return _told(str(error), CONFIGURATION)
    except (SessionError, LockedError, FolderError) as error:
        return _told(str(error), USAGE)
    except NotSavedError as error:
        return _told(f"the session is not saved: {error}", 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _told(f"{where}{error.strerror}; the session can't be kept there", CONFIGURATION)


async def _run(options: Options, place: Place, loaded: Loaded, prompt: str) -> int:
    models = Models(loaded.settings, place)
    models.access(options.model)  # an unknown model or a missing key is said before anything is written
    reference = options.resume or ("last" if options.resume_last else "")
    store = session_store(place, loaded.settings, _err)
    if options.fork and reference:
        reference = await asyncio.to_thread(store.fork, reference)
    wanted = Wanted(reference, options, attended=False)
    async with open_desk(place, loaded, store, models, wanted) as desk:
        for note in desk.notes:
            _err(f"buddy: {one_line(note, 400)}\n")
        number = desk.board.focus
        content, notes = await _content(desk, number, prompt)
        for note in notes:
            _err(f"buddy: {one_line(note, 400)}\n")
        access = models.access(desk.board.task(number).model)
        facts = RunFacts(
            session_id=desk.session.session_id,
            cwd=place.boundary.cwd,
            model=access.name,
            tools=tuple(tool.name for tool in desk.board.parts.tools.list_all()),
            permission_mode=desk.policy.mode,
        )
        run = ExecRun(content, facts, stop_on_denial=options.permission_prompts == "fail")
        with _output(options) as out:
            code = await run_exec(desk.board, number, run, _format(options, out))
        outcome = desk.board.task(number).outcome
        if code and outcome is not None and outcome.reason:
            _err(f"buddy: {one_line(outcome.reason, 500)}\n")
    if options.ephemeral:
        await asyncio.to_thread(store.delete, facts.session_id)
    return code


async def _content(desk: Desk, number: int, prompt: str) -> tuple[tuple[UserPart, ...], tuple[str, ...]]:
    """The prompt with the files it mentions; nothing at all continues what waits."""
    if not prompt:
        return (), ()
    task = desk.board.task(number)
    context = ToolContext(number, "", lambda _text: None, task.cancelled, task.services.services)

    async def read(path: str) -> ToolResult:
        return await read_file.run(context, read_file.arguments(path=path))

    expanded = await expand(prompt, desk.place.boundary.cwd, read)
    return expanded.parts, expanded.notes


def _prompt(options: Options) -> str:
    """The words of the command line, and stdin behind them. Raises `UsageError` when there is neither."""
    words = list(options.words)
    prompt = " ".join(words)
    piped = "" if sys.stdin is None or sys.stdin.isatty() else _stdin()
    if prompt and piped:
        return f"{prompt}\n\n<stdin>\n{piped}\n</stdin>"
    if not prompt and not piped and not (options.resume or options.resume_last):
        raise UsageError('there is no prompt: buddy exec "what to do", or pipe one in')
    return prompt or piped


def _stdin() -> str:
    data = sys.stdin.buffer.read(MAX_STDIN_CHARS * 4 + 1)
    text = data.decode("utf-8", "replace")
    if len(text) > MAX_STDIN_CHARS:
        raise UsageError(
            f"stdin is longer than {MAX_STDIN_CHARS:,} characters; write it to a file and name the file"
        )
    return text.strip("\n")


def _check_yolo(options: Options, environment: Mapping[str, str]) -> None:
    is_container = (
        os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv") or "container" in environment
    )
    if options.permission_mode == "yolo" and os.geteuid() == 0 and not is_container and not options.i_know:
        raise UsageError(
            "yolo as root outside a container runs anything the model says; add --i-know if you mean it"
        )


class _output:  # noqa: N801 - used as a context manager only
    """Stdout, or the file of -o, which is replaced only when the run is over."""

    def __init__(self, options: Options) -> None:
        self._path = options.output
        self._pieces: list[str] = []

    def __enter__(self) -> Callable[[str], None]:
        return self._pieces.append if self._path else _out

    def __exit__(self, *_error: object) -> None:
        if self._path:
            with open(self._path, "w", encoding="utf-8", errors="replace") as file:
                file.write("".join(self._pieces))


def _format(options: Options, out: Callable[[str], None]) -> Format:
    match options.output_format:
        case "json":
            return JsonFormat(out, _err)
        case "stream-json":
            return StreamJsonFormat(out, partial=options.include_partial_messages)
        case "sse":
            return SseFormat(out)
        case _:
            return TextFormat(out, _err)


def _out(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def _err(text: str) -> None:
    sys.stderr.buffer.write(text.encode("utf-8", "replace"))
    sys.stderr.buffer.flush()


def _told(text: str, code: int) -> int:
    _err(f"buddy: {one_line(text, 500)}\n")
    return code
