"""`buddy exec`, and every other run without a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Protocol

import msgspec

from buddy.agent.interpreter import collect_from_here
from buddy.agent.messages import Image, Text, Usage
from buddy.agent.tool import ToolError
from buddy.app.invocations import expand_line
from buddy.app.launch import (
    LaunchContext,
    check_yolo,
    find_launch,
    read_settings,
)
from buddy.app.options import Options, UsageError
from buddy.app.policy import mode_of
from buddy.app.providers import Models
from buddy.app.session import ProgramSide, Session, open_session
from buddy.app.session_store import KEEP_ELSEWHERE, open_store
from buddy.cli.arguments import take_reference
from buddy.cli.log import start_log
from buddy.config.loading import LoadedSettings
from buddy.config.settings import ConfigError
from buddy.extend.mentions import ExpandedPrompt
from buddy.headless.exec import ExecRun, run_exec
from buddy.headless.exit_codes import CONFIGURATION, USAGE
from buddy.headless.formats import (
    HELD_CHARS,
    Format,
    JsonFormat,
    RunFacts,
    SseFormat,
    TextFormat,
    server_state,
)
from buddy.headless.stream_format import StreamJsonFormat
from buddy.headless.structured import AnswerSchema
from buddy.safety.sanitise import one_line
from buddy.sessions.errors import (
    FolderError,
    ForeignSessionError,
    NotSavedError,
    ReadOnlySessionError,
    SessionError,
)
from buddy.sessions.lock import LockedError
from buddy.tasks.board import TaskError
from buddy.tasks.task import Task

MAX_STDIN_CHARS = 1_000_000
MAX_IMAGE_FILE_BYTES = 50_000_000
NOTHING = ExpandedPrompt((), ())
ONE_TOKEN = Usage(1, 0, 0, 0, 0, estimated=True)


class HeadlessPrompt(msgspec.Struct, frozen=True):
    """The prompt of a run: the words of the command line, and what came on stdin."""

    words: str = ""
    piped: str = ""


class Driven(Protocol):
    """Interface of `buddy.cli.program.DrivenRun`, which is loaded only where a program drives buddy."""

    @property
    def options(self) -> Options:
        """Return the options with what the program asked for."""
        ...

    @property
    def side(self) -> ProgramSide:
        """Return the parts of the session that the program provides."""
        ...

    async def serve(
        self,
        session: Session,
        task_id: int,
        schema: AnswerSchema | None,
        facts: Callable[[], RunFacts],
        settle: Callable[[Session], Awaitable[None]],
    ) -> int:
        """Answer the messages of the program until stdin ends; return the exit code."""
        ...


class _OutputError(Exception):
    """Stdout can't be written; stderr may still be read."""


def run_headless(options: Options, environment: Mapping[str, str]) -> int:
    """Run one prompt and return the exit code."""
    options = take_reference(options)
    try:
        is_stream = options.input_format == "stream-json"
        prompt = HeadlessPrompt() if is_stream else _prompt(options)
        _check(options)
        if options.cd:
            _change_folder(options.cd)
        launch = find_launch(options, environment)
        check_yolo(options, environment)
        loaded = read_settings(launch, options)
        if options.require_trust and not launch.trusted:
            raise ConfigError(
                f"{launch.boundary.root} is not trusted; start buddy there once, or give --trust"
            )
        start_log(launch.where, debug=options.debug)
        collect_from_here()
        with _choose_root(options, launch, loaded) as root:
            return asyncio.run(_run(options, launch, loaded, prompt, root))
    except (ConfigError, FolderError) as error:
        return _fail(str(error), CONFIGURATION)
    except (LockedError, ForeignSessionError, ReadOnlySessionError) as error:
        return _fail(f"{error}. `--fork` continues in a copy.", USAGE)
    except NotSavedError as error:
        return _fail(f"the session is not saved: {error}", 1)
    except (SessionError, TaskError) as error:
        return _fail(str(error), USAGE)
    except BrokenPipeError:
        raise  # the reader of stdout is gone: not an error of the session
    except _OutputError as error:
        where_kept = "the session is not kept" if options.ephemeral else "`buddy resume` shows it"
        return _fail(f"can't write the answer to standard output ({error}); {where_kept}", 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(
            f"{where}{error.strerror}: the session can't be saved there; {KEEP_ELSEWHERE}", CONFIGURATION
        )


def _change_folder(path: str) -> None:
    try:
        os.chdir(os.path.expanduser(path))
    except OSError as error:
        raise UsageError(f"--cd: {path!r}: {error.strerror}") from error


@contextlib.contextmanager
def _choose_root(options: Options, launch: LaunchContext, loaded: LoadedSettings) -> Generator[str]:
    """Yield the root of the session store: "" for the usual one, or a temporary folder for an ephemeral
    session in a read-only workspace."""
    writable = os.access(launch.boundary.root, os.W_OK)
    if writable or loaded.settings.session.directory or not options.ephemeral or options.fork:
        yield ""
        return
    from buddy.workspace.temporary import TemporaryFolder  # tempfile: 3 ms, only needed for such a run

    with TemporaryFolder("session") as folder:
        yield folder


async def _run(
    options: Options, launch: LaunchContext, loaded: LoadedSettings, prompt: HeadlessPrompt, root: str
) -> int:
    driven: Driven | None = None
    if options.input_format == "stream-json":
        from buddy.cli.program import open_program  # only for such a run

        driven = await open_program(options, _out, _warn)
        options = driven.options
        loaded = read_settings(launch, options)
    schema, images = _schema(options), _images(options)
    models = Models(loaded.settings, launch)
    # For its error only: an unknown model must fail before a session is written.
    models.access(options.model)
    for name in filter(None, options.variants):
        models.access(name)
        await models.require_key(name)
    reference = options.reference
    if options.model or not reference:  # a resumed session brings its own model
        await models.require_key(options.model)  # before writing a session that could not run
    store = open_store(launch, loaded.settings, _err, root=root)
    if options.fork and reference:
        reference = await asyncio.to_thread(store.fork, reference)
    opening = open_session(
        launch,
        loaded,
        options,
        models=models,
        store=store,
        reference=reference,
        attended=False,
        program=driven.side if driven is not None else None,
    )
    async with opening as session:
        for note in session.notes:
            _err(f"buddy: {one_line(note, 400)}\n")
        task_id = session.board.focus
        if session.mcp is not None:
            session.mcp.begin()
        if driven is None:
            await _settle_servers(session, prompt.words or prompt.piped)
            if session.mcp is not None and (missing := session.mcp.arrivals.missing()):
                raise ConfigError(f"{missing[0]} (it is required)")
        if options.model and session.board.task(task_id).model != options.model:
            session.board.change_model(task_id, options.model)
        if options.variants:
            return await _run_variants(session, options, prompt, images)
        expanded = await _expand(session, task_id, prompt)
        for note in expanded.notes:
            _err(f"buddy: {one_line(note, 400)}\n")
        access = models.access(session.board.task(task_id).model)
        if images and not access.sees:
            raise UsageError(f"--image: {access.name} takes no pictures; choose another with -m")
        await models.prepare(session.board.task(task_id).model, offers_models=False)
        if options.max_cost and access.price(ONE_TOKEN) is None:
            problem = f"the price of {access.name} is not known"
            _err(f"buddy: {problem}; --max-cost only works if the server reports its prices\n")
        facts = _facts(session, task_id, models)
        run = ExecRun(
            (*expanded.parts, *images),
            facts,
            stop_on_denial=options.permission_prompts == "fail",
            warn=_warn,
            schema=schema,
        )
        if driven is not None:
            code = await driven.serve(
                session, task_id, schema, lambda: _facts(session, task_id, models), _settle_servers
            )
        else:
            if not expanded.parts:
                _announce_continuation(session.board.task(task_id))
            with _output(options.output) as out:
                code = await run_exec(session.board, task_id, run, _format(options, out))
        outcome = session.board.task(task_id).outcome
        if code and outcome is not None and outcome.reason:
            _err(f"buddy: {one_line(outcome.reason, 500)}\n")
    if options.ephemeral:
        await asyncio.to_thread(store.delete, facts.session_id)
    return code


async def _run_variants(
    session: Session, options: Options, prompt: HeadlessPrompt, images: tuple[Image, ...]
) -> int:
    """Work on the prompt several times at once, each in a worktree of its own; return the exit code."""
    from buddy.headless.variants import VariantsRun, run_variants  # these only with the option
    from buddy.headless.variants_output import JsonVariants, StreamJsonVariants, TextVariants

    board, models = session.board, session.models
    if not prompt.words and not prompt.piped:
        raise UsageError("--variants needs a prompt")
    start = board.task(board.focus)
    for name in dict.fromkeys(name or start.model for name in options.variants):
        await models.prepare(name, offers_models=False)
        access = models.access(name)
        if options.max_cost and access.price(ONE_TOKEN) is None:
            problem = f"the price of {access.name} is not known"
            _warn(f"{problem}; --max-cost only works if the server reports its prices")
    try:
        opened = await board.variants.open(prompt.words or prompt.piped, options.variants, start=start)
    except TaskError as error:
        raise ConfigError(f"--variants: {error}") from error
    for number, problem in opened.problems.items():
        _warn(f"variant {number} was not started: {problem}")
    if opened.notice:
        _warn(opened.notice)
    expanded = [(task, await _expand(session, task.task_id, prompt)) for task in opened.tasks]
    for note in dict.fromkeys(note for _task, one in expanded for note in one.notes):
        _warn(note)
    with _output(options.output) as out:
        run = VariantsRun(
            prompts=tuple((task, (*one.parts, *images)) for task, one in expanded),
            stop_on_denial=options.permission_prompts == "fail",
        )
        match options.output_format:
            case "json":
                output = JsonVariants(out, _err, session.session_id, opened.problems)
            case "stream-json":
                facts = {task.task_id: _facts(session, task.task_id, models) for task in opened.tasks}
                parts = options.include_partial_messages
                output = StreamJsonVariants(out, facts, opened.problems, partial=parts)
            case _:
                is_terminal = not options.output and sys.stdout.isatty()
                output = TextVariants(out, _err, is_terminal=is_terminal)
        code = await run_variants(board, run, output)
    _warn(f"`buddy resume {session.session_id}`, then /variants compares them, /variants pick N merges one")
    return code


def _schema(options: Options) -> AnswerSchema | None:
    if not options.json_schema:
        return None
    from buddy.app.run_settings import read_json  # only with a schema

    return AnswerSchema(read_json(options.json_schema, "--json-schema"))


def _images(options: Options) -> tuple[Image, ...]:
    """Return the pictures of --image. Raises `UsageError`."""
    if not options.images:
        return ()
    from buddy.safety.paths import read_regular  # these only with a picture
    from buddy.tools.files.read_pictures import picture

    images: list[Image] = []
    for path in options.images:
        try:
            data = read_regular(os.path.realpath(os.path.expanduser(path)), MAX_IMAGE_FILE_BYTES)
            images.append(picture(data, path).image)
        except (OSError, ToolError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"--image: {path[:200]!r} can't be used: {why}") from error
    return tuple(images)


async def _settle_servers(session: Session, prompt: str = "") -> None:
    """Give the MCP servers a moment, and those that the prompt or their definition wants a longer one."""
    if session.mcp is not None:
        for note in await session.mcp.arrivals.before_turn(prompt):
            _warn(note)


def _facts(session: Session, task_id: int, models: Models) -> RunFacts:
    tools = session.board.tools_of(task_id)
    access = models.access(session.board.task(task_id).model)
    definitions = [one for one in session.extensions.catalogue.definitions if one.state == "active"]
    servers = session.mcp.servers.values() if session.mcp is not None else ()
    return RunFacts(
        servers=tuple(
            (server.name, server_state(server.state)) for server in servers if not server.definition.agent
        ),
        commands=tuple(one.name for one in definitions if one.kind == "command"),
        skills=tuple(one.name for one in definitions if one.kind == "skill"),
        agents=tuple(one.name for one in definitions if one.kind == "agent"),
        session_id=session.session_id,
        cwd=session.board.task(task_id).workspace.boundary.cwd,
        model=access.name,
        tools=tuple(sorted(tool.name for tool in (*tools.list_all(), *tools.deferred()))),
        permission_mode=session.policy.mode,
    )


def _warn(text: str) -> None:
    _err(f"buddy: {one_line(text, 500)}\n")


def _announce_continuation(task: Task) -> None:
    """Tell the user which interrupted task continues when no prompt was given."""
    if task.history and (task.running or task.state not in ("idle", "finished")):
        title = f" ({one_line(task.title, 60)})" if task.title else ""
        why = one_line(task.reason or task.state, 100)
        _err(f"buddy: no prompt given: task {task.task_id}{title} continues where it stopped ({why})\n")


def _prompt(options: Options) -> HeadlessPrompt:
    """Return the words of the command line, and stdin. Raises `UsageError` when there is neither."""
    # In an ASCII locale Python decodes arguments to surrogates; their bytes are UTF-8 nevertheless.
    words = os.fsencode(" ".join(options.words)).decode("utf-8", "replace")
    piped = "" if sys.stdin is None or sys.stdin.isatty() else _stdin()
    blank = not words.strip() and not piped.strip()
    if blank and (words or piped or not (options.resume or options.resume_last)):
        raise UsageError('no prompt: expected buddy exec "what to do", or a prompt on stdin')
    return HeadlessPrompt(words, piped)


async def _expand(session: Session, task_id: int, prompt: HeadlessPrompt) -> ExpandedPrompt:
    """Return the prompt with the files it mentions. Behind words, stdin is data: a diff, a page, a log. It
    mentions no file, and adds no words to a command."""
    if not prompt.words:
        return await expand_line(session, task_id, prompt.piped, typed=False) if prompt.piped else NOTHING
    expanded = await expand_line(session, task_id, prompt.words, typed=True)
    if not prompt.piped:
        return expanded
    stdin = f"\n\n<stdin>\n{prompt.piped}\n</stdin>"
    match expanded.parts:
        case (Text(text), *attached):
            return ExpandedPrompt((Text(text + stdin), *attached), expanded.notes)
        case parts:
            return ExpandedPrompt((*parts, Text(stdin)), expanded.notes)


def _stdin() -> str:
    data = sys.stdin.buffer.read(MAX_STDIN_CHARS * 4 + 1)
    text = data.decode("utf-8", "replace")
    if len(text) > MAX_STDIN_CHARS:
        raise UsageError(
            f"stdin is longer than {MAX_STDIN_CHARS:,} characters; save it to a file and name that file"
        )
    return text.strip("\n")


@contextlib.contextmanager
def _output(path: str) -> Generator[Callable[[str], None]]:
    """Yield the writer for stdout or for the file of -o, which is replaced at the end of the run. If that
    fails, the answer goes to stdout: it was paid for."""
    if not path:
        yield _out
        return
    pieces: list[str] = []
    try:
        yield pieces.append
    finally:
        _write_answer(path, "".join(pieces))


def _write_answer(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        _err(f"buddy: -o {path}: {error.strerror}; the answer is on stdout\n")
        _out(text)


def _check(options: Options) -> None:
    """Raise `UsageError` for mistakes that are certain before anything is written or spent."""
    if options.permission_mode:
        mode_of(options.permission_mode)
    if options.ephemeral and (options.resume or options.resume_last) and not options.fork:
        raise UsageError("--ephemeral is for new sessions; with --continue or --resume add --fork")
    if options.output:
        _check_output(options.output)


def _check_output(path: str) -> None:
    """Raise `UsageError` when the file of -o can't be written."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise UsageError(f"-o {path}: expected a file, found a directory")
    if not os.path.isdir(folder):
        raise UsageError(f"-o {path}: there is no directory {folder}")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(f"-o {path}: it can't be written there")


def _format(options: Options, out: Callable[[str], None]) -> Format:
    match options.output_format:
        case "json":
            return JsonFormat(out, _err)
        case "stream-json":
            return StreamJsonFormat(out, partial=options.include_partial_messages)
        case "sse":
            return SseFormat(out)
        case "codex-json":
            from buddy.headless.codex_format import CodexJsonFormat  # only for programs for Codex

            return CodexJsonFormat(out)
        case _:
            is_terminal = not options.output and sys.stdout.isatty()
            held = sys.maxsize if options.output else HELD_CHARS  # a file gets the answer only
            return TextFormat(out, _err, is_terminal=is_terminal, held_chars=held)


def _out(text: str) -> None:
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _OutputError(error.strerror) from error


def _err(text: str) -> None:
    with contextlib.suppress(OSError):  # a full disk or a closed pipe is no reason to stop the run
        sys.stderr.buffer.write(text.encode("utf-8", "replace"))
        sys.stderr.buffer.flush()


def _fail(text: str, code: int) -> int:
    _err(f"buddy: {one_line(text, 500)}\n")
    return code
