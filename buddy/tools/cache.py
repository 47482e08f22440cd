"""Results of read-only calls, for as long as they are true: LRU, a lifetime per tool, dropped by writes.

A result that depends on files is valid only while their state is unchanged; the caller passes that as
`validity`.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from buddy.agent.tool import Access, ToolResult
from buddy.agent.tool_calls import conflict

MAX_ENTRIES = 256
MAX_CHARS = 8_000_000


class CacheStatistics(msgspec.Struct, frozen=True):
    """Counters of the cache."""

    hits: int
    misses: int
    entries: int


class _Cached(msgspec.Struct, frozen=True):
    result: ToolResult
    access: Access
    validity: object
    until: float


class ToolCache:
    """Results by tool and arguments. Times are seconds of the clock it was given."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._entries: OrderedDict[tuple[str, str], _Cached] = OrderedDict()
        self._chars = 0
        self._hits = 0
        self._misses = 0

    def get(
        self, name: str, arguments: object, validity: object = None, *, place: str = ""
    ) -> ToolResult | None:
        """Return an equal call's result, marked as cached; None when there is none that still holds. `place`:
        the folder the arguments' paths start from."""
        key = _key(name, arguments, place)
        found = self._entries.get(key)
        if found is not None and (found.until <= self._now() or found.validity != validity):
            self._drop(key)
            found = None
        if found is None:
            self._misses += 1
            return None
        self._hits += 1
        self._entries.move_to_end(key)
        return msgspec.structs.replace(found.result, cached=True)

    def set(
        self,
        name: str,
        arguments: object,
        result: ToolResult,
        *,
        life_s: float,
        access: Access,
        validity: object = None,
        place: str = "",
    ) -> None:
        """Keep a result for `life_s` seconds."""
        key = _key(name, arguments, place)
        self._drop(key)
        self._entries[key] = _Cached(result, access, validity, self._now() + life_s)
        self._chars += len(result.text)
        while self._entries and (len(self._entries) > MAX_ENTRIES or self._chars > MAX_CHARS):
            self._drop(next(iter(self._entries)))

    def invalidate(self, pattern: str) -> int:
        """Drop the results that touched a path matching this glob; how many there were. `read_file:*.py` are
        those of one tool."""
        tool, colon, glob = pattern.partition(":")
        if colon and any(key[0] == tool for key in self._entries):
            return self._drop_where(lambda key, entry: key[0] == tool and _touched(entry, glob))
        return self._drop_where(lambda _key, entry: _touched(entry, pattern))

    def invalidate_writes(self, access: Access) -> int:
        """Drop what a call that just ran may have made untrue. Paths are compared as they are here and in
        `set`: both are real ones, or both as a model gave them from the same folder."""
        return self._drop_where(lambda _key, entry: not entry.access.reads or conflict(access, entry.access))

    def invalidate_tool(self, name: str) -> int:
        """Drop the results of one tool."""
        return self._drop_where(lambda key, _entry: key[0] == name)

    def clear(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self._chars = 0

    def cleanup_expired(self) -> int:
        """Drop expired results."""
        now = self._now()
        return self._drop_where(lambda _key, entry: entry.until <= now)

    def statistics(self) -> CacheStatistics:
        """Return hits and misses so far."""
        return CacheStatistics(self._hits, self._misses, len(self._entries))

    def _drop_where(self, doomed: Callable[[tuple[str, str], _Cached], bool]) -> int:
        keys = [key for key, entry in self._entries.items() if doomed(key, entry)]
        for key in keys:
            self._drop(key)
        return len(keys)

    def _drop(self, key: tuple[str, str]) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._chars -= len(entry.result.text)


def _key(name: str, arguments: object, place: str) -> tuple[str, str]:
    text = json.dumps((place, msgspec.to_builtins(arguments)), sort_keys=True, ensure_ascii=True)
    return name, hashlib.sha256(text.encode()).hexdigest()


def _touched(entry: _Cached, glob: str) -> bool:
    return any(fnmatch.fnmatchcase(path, glob) for path in entry.access.reads)
