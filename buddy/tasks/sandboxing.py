"""The confinement of a task's calls, and the question to the person when the sandbox blocked one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

import msgspec

from buddy.agent.tool import Tool
from buddy.safety.paths import Boundary
from buddy.safety.policy.decide import Facts, Mode, Verdict
from buddy.safety.sandbox_openings import (
    NO_WRITES,
    OpeningRequest,
    Openings,
    OutsideWrites,
    opening_rules,
    outside_writes,
)
from buddy.workspace.processes.jobs import Jobs
from buddy.workspace.processes.pool import ChildProcesses, ConfinedProcesses
from buddy.workspace.sandbox.profile import Confinement, OpenedPlace
from buddy.workspace.sandbox.status import SandboxStatus


def confinement_for(
    tool: Tool, facts: Facts, verdict: Verdict, mode: Mode, boundary: Boundary, status: SandboxStatus
) -> Confinement | None:
    """Decide the confinement of an allowed call, None for none. Mode yolo starts without a sandbox."""
    if not tool.confined or facts.target or not status.is_working or verdict.outside or mode == "yolo":
        return None
    if tool.category == "git" and (not facts.programs or any(path.protected for path in facts.writes)):
        return None  # the call runs git only; protected paths were named in the question and allowed
    reads = verdict.decision == "allow" and verdict.column == "shell_read_only"
    return Confinement("read-only" if reads else "workspace", boundary, ("*",) if verdict.network else ())


def services_for(
    tool: Tool, services: Mapping[type, object], confinement: Confinement | None
) -> Mapping[type, object]:
    """Return the services for a call's tool. A plug-in can start only confined commands, and none that
    outlive its call."""
    children = services.get(ChildProcesses)
    if tool.source == "built-in" or confinement is None or not isinstance(children, ChildProcesses):
        return services
    allowed = {kind: service for kind, service in services.items() if kind is not Jobs}
    return {**allowed, ChildProcesses: ConfinedProcesses(children, confinement)}


def opening_verdict(request: OpeningRequest, facts: Facts) -> Verdict:
    """Return the question about a blocked call. Only the person may answer it; the named openings can be
    remembered."""
    question = (
        "It only works outside the sandbox, with all your permissions. Run it there?"
        if request.outside
        else "Allow that and run the command again?"
    )
    rules = opening_rules(request.openings, facts.main or facts.root)
    return Verdict(
        decision="ask",
        reason=f"the sandbox blocked {request.reason}. {question}",
        decided_by="floor",
        column="shell_sandboxed",
        floor=True,
        rules_to_save=rules,
        rules_for_session=rules,
    )


async def open_request(confinement: Confinement, request: OpeningRequest) -> Confinement | None:
    """Return the confinement of the second run, None for outside the sandbox. Creates missing folders."""
    if request.outside:
        return None
    await asyncio.to_thread(_make_folders, request.openings)
    for place in request.openings.places:
        confinement = _widen(confinement, await _open_place(place, confinement))
    return msgspec.structs.replace(
        confinement, kind="workspace", hosts=(*confinement.hosts, *request.openings.hosts)
    )


def writes_of(
    facts: Facts, confinement: Confinement | None, boundary: Boundary, status: SandboxStatus
) -> OutsideWrites:
    """Return the writes outside the workspace that a confined command declares."""
    if confinement is None or confinement.kind != "workspace" or facts.shell is None:
        return NO_WRITES
    return outside_writes(facts.shell.writes, boundary, own_tmp=status.level == 3)


def reason_with(writes: OutsideWrites, verdict: Verdict) -> str:
    """Return the reason of a question, first what a yes opens: the end of a long reason may be cut off."""
    return "; ".join(filter(None, (writes.reason, verdict.reason)))


async def open_allowed_places(
    confinement: Confinement, places: Sequence[str], status: SandboxStatus
) -> Confinement:
    """Return the confinement of a call after the person allowed the named places.

    A place stays closed if its path now resolves elsewhere, it is too big to be searched, or it contains
    something that can't be kept closed.
    """
    for place in places:
        if await asyncio.to_thread(os.path.realpath, place) != place:
            continue
        opening = await _open_place(place, confinement)
        if opening.complete and (
            not opening.closed or status.level != 2
        ):  # Landlock can't exclude parts of a folder
            confinement = _widen(confinement, opening)
    return confinement


def _widen(confinement: Confinement, opening: OpenedPlace) -> Confinement:
    return msgspec.structs.replace(
        confinement,
        writable=(*confinement.writable, *opening.writable),
        closed=(*confinement.closed, *opening.closed),
    )


async def _open_place(place: str, confinement: Confinement) -> OpenedPlace:
    from buddy.workspace.sandbox.places import search_place  # reads git's tables: only when needed

    return await asyncio.to_thread(search_place, place, confinement.boundary.home)


def _make_folders(openings: Openings) -> None:
    for place in openings.places:
        os.makedirs(place, exist_ok=True)


def restore_note(sentence: str) -> str:
    """Return the warning, for person and model, about a protected name that a command changed."""
    return f"a sandboxed command changed a protected name: {sentence}"


def note_of_block(request: OpeningRequest, answer: str) -> str:
    """Return the note for the model about a blocked call."""
    return f"[the sandbox blocked {request.reason}; {answer}]"
