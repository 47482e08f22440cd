"""One task's view of files: the version it saw, how much of it, and the changes since.

Each task has its own `FileViews`. Keys are real paths. A task's own writes count as seen.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from buddy.agent.tool import ToolError
from buddy.workspace.files.content import decode
from buddy.workspace.files.editor_buffers import EditorBuffers
from buddy.workspace.files.line_diff import brief_changes
from buddy.workspace.files.store import LoadedFile, Stamp, load, stamp_of

MAX_VIEWS = 500
MAX_KEPT_CHARS = 300_000
"""Longer texts are known by their hash alone: that they changed can be said, not what."""


class View(msgspec.Struct, frozen=True):
    """One file as a task knows it. `shown`: line ranges (first, last, counted from 1) the model has seen of
    this version; `whole`: it has seen all of it; `text`: the content, None when too long to keep; `answered`:
    the range last answered with "unchanged"."""

    digest: str
    stamp: Stamp
    whole: bool
    text: str | None
    shown: tuple[tuple[int, int], ...] = ()
    answered: tuple[int, int] = (0, 0)


class ShownLines(msgspec.Struct, frozen=True):
    """Lines `first` to `last` of `total` that the model was shown. `cut`: some of them only in part."""

    first: int
    last: int
    total: int
    cut: bool


class FileViews:
    """The files one task has seen."""

    def __init__(self) -> None:
        self._views: OrderedDict[str, View] = OrderedDict()

    def get(self, real: str) -> View | None:
        """Return the task's view of a file, None when it has not seen it."""
        return self._views.get(real)

    def paths(self) -> tuple[str, ...]:
        """Return the files the task has seen, oldest first."""
        return tuple(self._views)

    def put(self, real: str, view: View) -> None:
        """Remember a view; the oldest ones are forgotten past the limit."""
        self._views[real] = view
        self._views.move_to_end(real)
        while len(self._views) > MAX_VIEWS:
            self._views.popitem(last=False)

    def saw(self, real: str, loaded: LoadedFile, text: str, lines: ShownLines) -> View:
        """Note that the model saw these lines; lines shown in part do not count."""
        digest = loaded.digest
        before = self._views.get(real)
        known = before if before is not None and before.digest == digest else None
        earlier = known.shown if known else ()
        shown = earlier
        if not lines.cut and lines.last >= lines.first:
            shown = _merge_ranges(((lines.first, lines.last), *earlier))
        whole = (known is not None and known.whole) or lines.total == 0 or shown == ((1, lines.total),)
        view = View(digest, loaded.stamp, whole, _text_to_keep(text), shown)
        self.put(real, view)
        return view

    def wrote(
        self, real: str, before: LoadedFile | None, data: bytes, digest: str, stamp: Stamp, *, whole: bool
    ) -> None:
        """Record that the task changed a file itself: `data`, its hash, its outside. `whole`: the model gave
        the whole content; otherwise it knows as much as it did before."""
        view = self._views.get(real)
        knew_all = view is not None and view.whole and before is not None and view.digest == before.digest
        content = decode(data)
        text = None if content is None else _text_to_keep(content.text)
        self.put(real, View(digest, stamp, whole or knew_all, text))

    def forget(self, real: str) -> None:
        """Forget a file that no longer exists."""
        self._views.pop(real, None)

    def forget_below(self, real: str) -> None:
        """Forget a file, or a folder and everything below it, that no longer exists."""
        for known in [known for known in self._views if known == real or known.startswith(real + "/")]:
            del self._views[known]

    def rename(self, real: str, target: str) -> None:
        """Record a new name of a file or folder; what was seen of it stays seen."""
        for known in [known for known in self._views if known == real or known.startswith(real + "/")]:
            self.put(target + known[len(real) :], self._views.pop(known))

    def forget_shown(self) -> None:
        """Forget which lines were shown: compaction removed earlier results from the model's context, so
        nothing may be answered with "unchanged" any more. Versions stay known, so that changes are still
        noticed."""
        for real, view in self._views.items():
            self._views[real] = msgspec.structs.replace(view, shown=(), answered=(0, 0))

    def copy(self) -> FileViews:
        """Return a copy for a task that starts from a copy of the conversation."""
        twin = FileViews()
        twin._views = self._views.copy()
        return twin


def _text_to_keep(text: str) -> str | None:
    return text if len(text) <= MAX_KEPT_CHARS else None


def _merge_ranges(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def changed_lines(view: View, loaded: LoadedFile, max_lines: int = 20) -> tuple[tuple[str, ...], bool]:
    """Return the lines that differ from the version the task saw, and whether these are all."""
    content = decode(loaded.data)
    if view.text is None or content is None:
        return ("(too long or not text: read it again to see what changed)",), False
    return brief_changes(view.text, content.text, max_lines=max_lines)


def changed_since(
    views: FileViews,
    shown: Callable[[str], str] = os.path.relpath,
    max_lines: int = 20,
    buffers: EditorBuffers | None = None,
) -> tuple[str, ...]:
    """Describe for the model the changes in files the task has seen, in at most `max_lines` lines. Each
    change is reported once. Files with an unchanged stamp are not opened, nor those that are unsaved in an
    editor: what they hold is not on the disk. Blocks; call it in a thread."""
    told: list[str] = []
    for real in views.paths():
        view = views.get(real)
        if view is None or _same_outside(real, view.stamp):
            continue
        if buffers is not None and buffers.is_unsaved(real):
            continue
        if len(told) >= max_lines:
            told[max_lines - 1] = "… more files that were read have changed; read them again before editing"
            break
        told.extend(_describe_change(views, real, view, shown(real), max_lines - len(told)))
    return tuple(told[:max_lines])


def _same_outside(real: str, stamp: Stamp) -> bool:
    try:
        return stamp_of(os.stat(real, follow_symlinks=False)) == stamp
    except OSError:
        return False


def _describe_change(views: FileViews, real: str, view: View, name: str, room: int) -> list[str]:
    try:
        now = load(real, name)
    except (OSError, ToolError) as error:
        views.forget(real)
        return [f"{name}: can no longer be read ({error})"]
    if now is None:
        views.forget(real)
        return [f"{name}: deleted"]
    if now.digest == view.digest:
        views.put(real, msgspec.structs.replace(view, stamp=now.stamp))
        return []
    lines, whole = changed_lines(view, now, max(1, room - 1))
    _remember(views, real, view, now, whole=whole)
    if not whole:
        lines = (*lines[: max(0, room - 2)], "… (more; read it again)")
    return [f"{name} changed since you read it:", *lines][:room]


def _remember(views: FileViews, real: str, view: View, now: LoadedFile, *, whole: bool) -> None:
    """Note that the model was told. It knows the new version as well as the old one if it saw every changed
    line; otherwise it is told no more until the file changes again, and does not know it completely."""
    content = decode(now.data)
    text = None if content is None else _text_to_keep(content.text)
    views.put(real, View(now.digest, now.stamp, view.whole and whole, text))
