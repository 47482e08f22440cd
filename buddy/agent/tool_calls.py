"""The calls of one reply: their schedule, their decisions, and their results in the model's order."""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Sequence

import msgspec

from buddy.agent.display import Plain
from buddy.agent.events import MissingApproval, ToolProgress
from buddy.agent.host import Allowed, Decision, Denied, Unworkable, Withdrawn
from buddy.agent.messages import SKIPPED_TEXT, Call, ResultStatus, ToolMessage
from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import Access, Tool, ToolError, ToolResult
from buddy.agent.turn import NOTICE_TEXT, STOP_AT, End, Turn

MAX_TOGETHER = 8
"""Read-only calls of one reply that run at once."""


class Scheduled(msgspec.Struct, frozen=True):
    """Positions of calls that run together: one position, or several read-only ones."""

    positions: tuple[int, ...]


def group_calls(accesses: Sequence[Access]) -> tuple[Scheduled, ...]:
    """Schedule the calls of a reply. Adjacent read-only calls form groups of at most `MAX_TOGETHER`; a call
    that writes runs alone, so that later calls see its effect."""
    found: list[list[int]] = []
    together = False
    for position, access in enumerate(accesses):
        if access.read_only and together and len(found[-1]) < MAX_TOGETHER:
            found[-1].append(position)
        else:
            found.append([position])
        together = access.read_only
    return tuple(Scheduled(tuple(positions)) for positions in found)


def normalise_path(path: str) -> str:
    """Return a path for comparison, without looking at the disk."""
    return posixpath.normpath(path)


def conflict(one: Access, other: Access) -> bool:
    """Tell whether two calls must not run at once: one writes a path the other touches (or a parent or child
    of it), or one may change anything while the other touches something."""
    if one.anything or other.anything:
        return True
    return _touch(one.writes, (*other.reads, *other.writes)) or _touch(other.writes, one.reads)


def _touch(writes: Sequence[str], paths: Sequence[str]) -> bool:
    return any(_is_related(normalise_path(write), normalise_path(path)) for write in writes for path in paths)


def _is_related(one: str, other: str) -> bool:
    if one == other or "." in (one, other):
        return True
    return other.startswith(one.rstrip("/") + "/") or one.startswith(other.rstrip("/") + "/")


_log = logging.getLogger(__name__)


class _Ready(msgspec.Struct, frozen=True):
    """A call whose tool exists and takes its arguments."""

    call: Call
    tool: Tool
    arguments: msgspec.Struct
    access: Access


class _Broken(msgspec.Struct, frozen=True):
    """A call that can't be run; `why` is for the model."""

    call: Call
    tool: Tool | None
    why: str


_Prepared = _Ready | _Broken


class _Closed(msgspec.Struct, frozen=True):
    """An answered call, and the end of the turn where it was one repetition too many."""

    message: ToolMessage
    end: End | None


async def run_calls(turn: Turn, calls: Sequence[Call]) -> End | None:
    """Answer every call. Return the end of the turn, None where it continues."""
    turn.guard.begin_reply()
    prepared = [_prepare(turn, call) for call in calls]
    waiting = list(group_calls([_access(one) for one in prepared]))
    while waiting:
        group = [prepared[position] for position in waiting.pop(0).positions]
        end = await turn.beside.run(_run_group(turn, group))
        texts = await turn.host.steering()
        if texts or end is not None:
            for later in waiting:
                for position in later.positions:
                    await _skip(
                        turn, prepared[position], SKIPPED_TEXT if texts else "skipped: the turn ended"
                    )
            await turn.take_in(texts)
            return end
    return None


def _prepare(turn: Turn, call: Call) -> _Prepared:
    tool = turn.agent.tools.get(call.name)
    if tool is None:
        return _Broken(call, None, turn.agent.tools.unknown(call.name))
    try:
        arguments = tool.decode(call.arguments)
        access = tool.access(arguments)
    except (ArgumentsError, ToolError) as error:
        return _Broken(call, tool, f"{tool.name} was not run: {error}")
    turn.guard.note_well_formed()
    return _Ready(call, tool, arguments, access)


def _access(prepared: _Prepared) -> Access:
    return prepared.access if isinstance(prepared, _Ready) else Access()


async def _run_group(turn: Turn, group: Sequence[_Prepared]) -> End | None:
    """Run calls concurrently. Where all are LOW risk, each is decided and run by itself; otherwise all are
    decided in order first, so that approvals are asked one by one."""
    if len(group) == 1:
        return await _record(turn, await _run_call(turn, group[0]))
    all_low = all(isinstance(one, _Broken) or one.tool.risk == "low" for one in group)
    lives: list[asyncio.Task[_Closed]] = []
    try:
        for one in group:
            rest = _run_call(turn, one) if all_low else _finish_call(turn, one, await _open_call(turn, one))
            lives.append(asyncio.ensure_future(rest))
        return await _record_results(turn, lives)
    finally:
        await _end_all(lives)


async def _record_results(turn: Turn, lives: Sequence[asyncio.Task[_Closed]]) -> End | None:
    """Record each result in the model's order; return the end of the turn, None where it continues."""
    end: End | None = None
    for life in lives:
        await asyncio.wait({life})
        end = await _record(turn, life.result()) or end
    return end


async def _end_all(lives: Sequence[asyncio.Task[_Closed]]) -> None:
    for life in lives:
        life.cancel()
    if lives:
        await asyncio.wait(lives)


async def _record(turn: Turn, closed: _Closed) -> End | None:
    await turn.record_result(closed.message)
    return closed.end


async def _run_call(turn: Turn, one: _Prepared) -> _Closed:
    return await _finish_call(turn, one, await _open_call(turn, one))


async def _open_call(turn: Turn, one: _Prepared) -> Decision | None:
    """Announce the call and decide it; None for a broken one."""
    match one:
        case _Broken():
            turn.open_call(one.call, one.tool.risk if one.tool else "high", None)
            return None
        case _Ready():
            turn.open_call(one.call, one.tool.risk, one.arguments, one.tool)
            return await turn.host.decide(one.call, one.tool, one.arguments)


async def _finish_call(turn: Turn, one: _Prepared, decision: Decision | None) -> _Closed:
    match one:
        case _Broken():
            message = turn.close_call(one.call, "error", _text_result(one.why))
            asked = turn.guard.note_malformed()
            reason = "the model keeps sending calls no tool can take"
            return _Closed(message, End("limit", reason, "loop") if asked else None)
        case _Ready():
            return await _apply_decision(turn, one, decision)


async def _apply_decision(turn: Turn, one: _Ready, decision: Decision | None) -> _Closed:
    match decision:
        case Allowed() | None:
            turn.begin_call(one.call)
            status, result = await _execute(turn, one)
            return _close_with_guard(turn, one, status, result)
        case Denied(reason, missing):
            return _close_with_guard(turn, one, "denied", _text_result(f"denied: {reason}"), missing)
        case Unworkable(reason):
            return _close_with_guard(turn, one, "error", _text_result(f"failed: {reason}"))
        case Withdrawn():
            return _Closed(turn.close_call(one.call, "skipped", _text_result(SKIPPED_TEXT)), None)


def _close_with_guard(
    turn: Turn,
    one: _Ready,
    status: ResultStatus,
    result: ToolResult,
    missing: MissingApproval | None = None,
) -> _Closed:
    seen, count = turn.guard.observe(one.call, result.text)
    if seen != "ok":
        result = msgspec.structs.replace(result, text=result.text + NOTICE_TEXT.format(count=count))
    message = turn.close_call(one.call, status, result, missing)
    if seen != "stop":
        return _Closed(message, None)
    reason = f"the model goes round in circles: {one.call.name}, {STOP_AT} times the same or in turns"
    return _Closed(message, End("limit", reason, "loop"))


async def _execute(turn: Turn, one: _Ready) -> tuple[ResultStatus, ToolResult]:
    def progress(text: str) -> None:
        turn.emit(ToolProgress(one.call.id, text))

    try:
        result = await turn.host.execute(one.call, one.tool, one.arguments, progress)
    except ToolError as error:
        return "error", _text_result(str(error))
    except asyncio.CancelledError:
        raise
    # The border of a tool call: a tool may fail in any way, SystemExit and MemoryError included, and only its
    # call ends. asyncio would carry a SystemExit out of the task and end the program.
    except BaseException as error:  # noqa: BLE001 - see above
        _log.error("tool %s crashed", one.tool.name, exc_info=error)
        turn.warn(
            f"{one.tool.name} crashed: {type(error).__name__}: {error}. This is a bug; the log has more."
        )
        return "error", _text_result(f"{one.tool.name} crashed: {type(error).__name__}: {error}")
    return ("ok" if result.ok else "error"), result


async def _skip(turn: Turn, one: _Prepared, why: str) -> None:
    turn.open_call(one.call, one.tool.risk if one.tool else "high", None, begun=False)
    await turn.record_result(turn.close_call(one.call, "skipped", _text_result(why)))


def _text_result(text: str) -> ToolResult:
    return ToolResult(text, Plain(text))
