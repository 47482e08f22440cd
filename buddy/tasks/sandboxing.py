"""Sandboxing of a task's calls, and the question to the person when it blocked one."""

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
from buddy.workspace.sandbox.profile import Confinement, Opened
from buddy.workspace.sandbox.status import SandboxStatus


def confinement_for(
    tool: Tool, facts: Facts, verdict: Verdict, mode: Mode, boundary: Boundary, status: SandboxStatus
) -> Confinement | None:
    """Decide how an allowed call is confined; None: not at all. Mode yolo is a start without a sandbox."""
    if not tool.confined or not status.is_working or verdict.outside or mode == "yolo":
        return None
    if tool.category == "git" and (not facts.programs or any(path.protected for path in facts.writes)):
        return None  # git alone does what the call says; what is protected was shown and allowed by name
    reads = verdict.decision == "allow" and verdict.column == "shell_read_only"
    return Confinement("read-only" if reads else "workspace", boundary, ("*",) if verdict.network else ())


def services_for(
    tool: Tool, services: Mapping[type, object], confinement: Confinement | None
) -> Mapping[type, object]:
    """Return the services a call's tool gets. A plug-in starts only confined commands, and none that outlive
    its call."""
    children = services.get(ChildProcesses)
    if tool.source == "built-in" or confinement is None or not isinstance(children, ChildProcesses):
        return services
    kept = {kind: service for kind, service in services.items() if kind is not Jobs}
    return {**kept, ChildProcesses: ConfinedProcesses(children, confinement)}


def opening_verdict(request: OpeningRequest, facts: Facts) -> Verdict:
    """The question about a blocked call: only the person answers it, and what was named can be remembered."""
    how = (
        "It works only outside of the sandbox, with all your rights. Run it there?"
        if request.outside
        else "Open that and run the command again?"
    )
    rules = opening_rules(request.openings, facts.main or facts.root)
    return Verdict(
        decision="ask",
        reason=f"the sandbox blocked {request.reason}. {how}",
        decided_by="floor",
        column="shell_sandboxed",
        floor=True,
        rules_to_save=rules,
        rules_for_session=rules,
    )


async def opened(confinement: Confinement, request: OpeningRequest) -> Confinement | None:
    """The confinement of the second run; None: outside of the sandbox. Makes folders that are missing."""
    if request.outside:
        return None
    await asyncio.to_thread(_make, request.openings)
    for place in request.openings.places:
        confinement = _widened(confinement, await _opened_place(place, confinement))
    return msgspec.structs.replace(
        confinement, kind="workspace", hosts=(*confinement.hosts, *request.openings.hosts)
    )


def writes_of(
    facts: Facts, confinement: Confinement | None, boundary: Boundary, status: SandboxStatus
) -> OutsideWrites:
    """Return what a confined command says it writes outside of the workspace."""
    if confinement is None or confinement.kind != "workspace" or facts.shell is None:
        return NO_WRITES
    return outside_writes(facts.shell.writes, boundary, own_tmp=status.level == 3)


def reason_with(writes: OutsideWrites, verdict: Verdict) -> str:
    """The reason of a question, which first tells what a yes opens: a long one may be cut at its end."""
    return "; ".join(filter(None, (writes.reason, verdict.reason)))


async def opened_by_yes(
    confinement: Confinement, places: Sequence[str], status: SandboxStatus
) -> Confinement:
    """The confinement of a call whose request named these places. What leads elsewhere by now, is too big to
    be looked through, or holds what could not be kept closed, stays closed as a whole."""
    for place in places:
        if await asyncio.to_thread(os.path.realpath, place) != place:
            continue
        found = await _opened_place(place, confinement)
        if found.complete and (not found.closed or status.level != 2):  # Landlock opens all of a folder
            confinement = _widened(confinement, found)
    return confinement


def _widened(confinement: Confinement, found: Opened) -> Confinement:
    return msgspec.structs.replace(
        confinement,
        writable=(*confinement.writable, *found.writable),
        closed=(*confinement.closed, *found.closed),
    )


async def _opened_place(place: str, confinement: Confinement) -> Opened:
    from buddy.workspace.sandbox.places import opened_place  # git's data and the tables: when first needed

    return await asyncio.to_thread(opened_place, place, confinement.boundary.home)


def _make(found: Openings) -> None:
    for place in found.places:
        os.makedirs(place, exist_ok=True)


def put_back_note(sentence: str) -> str:
    """Tell person and model about a protected name that a command changed or created."""
    return f"a sandboxed command got at a protected name: {sentence}"


def blocked_note(request: OpeningRequest, answer: str) -> str:
    """Return the text the model reads about a blocked call."""
    return f"[the sandbox blocked {request.reason}; {answer}]"
