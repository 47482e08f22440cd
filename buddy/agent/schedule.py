"""The order of the calls of one reply. Pure: derived from what the calls say they touch."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence

import msgspec

from buddy.agent.tool import Access

MAX_TOGETHER = 8
"""Read-only calls of one reply that run at once."""


class Scheduled(msgspec.Struct, frozen=True):
    """Positions of calls that run together: one position, or several read-only ones."""

    positions: tuple[int, ...]


def groups(accesses: Sequence[Access]) -> tuple[Scheduled, ...]:
    """The calls of a reply in the order they run. Neighbouring read-only calls form groups of at most
    `MAX_TOGETHER`; a call that writes, or may change anything, stands alone, so what the model put after it
    sees its effect."""
    found: list[list[int]] = []
    together = False
    for position, access in enumerate(accesses):
        if access.read_only and together and len(found[-1]) < MAX_TOGETHER:
            found[-1].append(position)
        else:
            found.append([position])
        together = access.read_only
    return tuple(Scheduled(tuple(positions)) for positions in found)


def normalised(path: str) -> str:
    """A path for comparison, without looking at the disk."""
    return posixpath.normpath(path)


def conflict(one: Access, other: Access, resolve: Callable[[str], str] = normalised) -> bool:
    """Tell whether two calls must not run at once: one writes what the other touches (its path, a parent or a
    child of it), or either may change anything while the other touches something."""
    if one.anything or other.anything:
        return True
    return _touch(one.writes, (*other.reads, *other.writes), resolve) or _touch(
        other.writes, one.reads, resolve
    )


def _touch(writes: Sequence[str], paths: Sequence[str], resolve: Callable[[str], str]) -> bool:
    return any(_related(resolve(write), resolve(path)) for write in writes for path in paths)


def _related(one: str, other: str) -> bool:
    if one == other or "." in (one, other):
        return True
    return other.startswith(one.rstrip("/") + "/") or one.startswith(other.rstrip("/") + "/")
