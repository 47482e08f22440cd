"""The open files of an editor: what a task reads and edits is what the editor shows, saved or not.

The editor is asked for every text file below the folders it opened; the disk decides what kind of file that
is, and keeps its bytes where the editor's text is the same. Nothing the editor answers is believed without a
look: a write counts when the text is on the disk or in the editor afterwards."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from buddy.agent.tool import ToolContext, ToolError
from buddy.safety.paths import Located, is_beneath, walk_tree
from buddy.workspace.files.access import FileAccess
from buddy.workspace.files.content import EMPTY, Content, decode, with_line_ends
from buddy.workspace.files.store import (
    MAX_EDIT_BYTES,
    LoadedFile,
    Replacement,
    Stamp,
    folder_of,
    load,
)

MAX_BUFFER_BYTES = 5_000_000
"""Larger files are read and written on the disk: they would pass through one line of JSON each time."""
NEW_FILE_MODE = 0o644
MAX_NAMED = 5
MAX_LOOKS = 200
"""Files of a folder that the editor is asked for before the folder goes: each is a request of its own."""


class EditorClient(Protocol):
    """The requests to an editor. Both block, in a thread, and raise `ToolError` for no usable answer."""

    def read(self, path: str) -> str:
        """Return the text of a file as the editor has it. Raises `NotInEditorError` when it refuses."""
        ...

    def write(self, path: str, text: str) -> None:
        """Give a file a new text. Raises `ToolError`."""
        ...


class NotInEditorError(ToolError):
    """The editor answered a request with an error."""


class UncertainWriteError(ToolError):
    """The editor was given a text, and what became of it can't be told."""


class EditorBuffers:
    """The files of one editor, and those of them that are known to be unsaved. `folders` are as the editor
    named them; it knows paths by these names."""

    def __init__(self, client: EditorClient, folders: Sequence[str], *, writes: bool) -> None:
        self.client = client
        self.writes = writes
        self._folders = tuple((os.path.realpath(folder), folder.rstrip("/") or "/") for folder in folders)
        self._unsaved: dict[str, tuple[str, str]] = {}
        self._altered: set[str] = set()

    def covers(self, real: str) -> bool:
        """Tell whether a file lies in a folder the editor opened."""
        return any(is_beneath(real, folder) for folder, _name in self._folders)

    def asks_for(self, real: str, size: int) -> bool:
        """Tell whether the editor is asked for a file of this size."""
        return size <= MAX_BUFFER_BYTES and self.covers(real)

    def path_of(self, real: str) -> str:
        """Return the path by which the editor knows a file."""
        for folder, name in self._folders:
            if is_beneath(real, folder):
                return os.path.normpath(os.path.join(name, os.path.relpath(real, folder)))
        return real

    def note(self, real: str, shown: str, text: str | None) -> None:
        """Record that a file's text stands in the editor alone; None: that it is saved."""
        if text is None:
            self._unsaved.pop(real, None)
        else:
            self._unsaved[real] = shown, text

    def is_unsaved(self, real: str) -> bool:
        """Tell whether a file was unsaved when it was last looked at."""
        return real in self._unsaved

    def is_unsaved_below(self, real: str) -> bool:
        """Tell whether a file, or one below a folder, was unsaved when it was last looked at."""
        return any(is_beneath(unsaved, real) for unsaved in self._unsaved)

    def note_altered(self, real: str) -> None:
        """Record that the editor kept another text than it was given."""
        self._altered.add(real)

    def remark(self, real: str, shown: str) -> str:
        """Return what the model has to know about a file that was just written, "" for nothing."""
        words: list[str] = []
        if real in self._altered:
            self._altered.discard(real)
            words.append(
                f"the editor changed {shown} when it took this text (a formatter?): read it again before "
                "the next edit"
            )
        if self.is_unsaved(real):
            words.append(f"{shown} is not saved yet in the editor; commands and grep see the file on disk")
        return "".join(f"\nNote: {sentence}." for sentence in words)

    def unsaved(self) -> tuple[str, ...]:
        """Return the names of files that are still unsaved. Reads their files on the disk; blocks."""
        for real, (_shown, text) in tuple(self._unsaved.items()):
            if _text_on_disk(real) == text:
                self._unsaved.pop(real, None)
        return tuple(shown for shown, _text in self._unsaved.values())


class EditorFiles:
    """Files of the disk, through the editor where it has them."""

    def __init__(self, buffers: EditorBuffers, disk: FileAccess) -> None:
        self._buffers = buffers
        self._disk = disk

    def load(self, located: Located, *, max_bytes: int = MAX_EDIT_BYTES) -> LoadedFile | None:
        """Return a file as the editor has it, None when neither it nor the disk has it."""
        saved = self._disk.load(located, max_bytes=max_bytes)
        kind = EMPTY if saved is None else decode(saved.data)
        if kind is None or not self._buffers.asks_for(located.real, len(saved.data) if saved else 0):
            return saved
        text = self._text(located, saved)
        if text is None or (saved is not None and with_line_ends(text, "\n") == kind.text):
            self._buffers.note(located.real, located.shown, None)
            return saved
        data = _encode(text, kind, located.shown)
        if len(data) > max_bytes:
            raise ToolError(
                f"the editor's text of {located.shown} has {len(data):,} bytes; at most {max_bytes:,} can be "
                "handled. Use a shell command."
            )
        self._buffers.note(located.real, located.shown, with_line_ends(text, "\n"))
        if saved is None:
            return LoadedFile(data, NEW_FILE_MODE, Stamp(0, 0, len(data), 0, 0), 1)
        return LoadedFile(data, saved.mode, saved.stamp, saved.links)

    def look_below(self, folder: str, shown: str) -> bool:
        """Ask the editor for each file of a folder, so that the unsaved ones are known; tell whether those
        were all. Raises `ToolError` for an editor that gives no usable answer."""
        looks = 0
        for parent, _folders, names in walk_tree(folder):
            for name in sorted(names):
                path = os.path.join(parent, name)
                if os.path.islink(path) or not os.path.isfile(path):
                    continue
                if looks == MAX_LOOKS:
                    return False
                looks += 1
                label = os.path.join(shown, os.path.relpath(path, folder))
                try:
                    self.load(Located(path, path, path, True, label, "", ""))
                except ToolError as error:
                    if not isinstance(error.__cause__, NotInEditorError):
                        raise
        return True

    def _text(self, located: Located, saved: LoadedFile | None) -> str | None:
        try:
            text = self._buffers.client.read(self._buffers.path_of(located.real))
        except NotInEditorError as error:
            if saved is None:
                return None
            raise ToolError(
                f"{located.shown} is on the disk, but the editor does not show it: {error}. Nothing was done."
            ) from error
        return text.removeprefix("\ufeff")

    def replace(self, new: Replacement) -> Stamp:
        """Have the editor replace or create a text file; write what is no text for it on the disk."""
        located = Located(new.real, new.real, new.real, True, new.shown, "", "")
        content = decode(new.data)
        asks = content is not None and self._buffers.asks_for(new.real, len(new.data))
        if content is None or not asks or not self._is_text_of_editor(new.was):
            return self._disk.replace(new)
        before = self.load(located)
        if (before and before.digest) != (new.was and new.was.digest):
            raise ToolError(
                f"{new.shown} was changed in the editor or on the disk while it was being edited; nothing "
                "was written. Read it again."
            )
        if not self._buffers.writes:
            if self._buffers.is_unsaved(new.real):
                raise ToolError(
                    f"{new.shown} has unsaved changes in the editor, which lets nothing be written: the "
                    "person has to save it first. Nothing was changed."
                )
            return self._disk.replace(new)
        with folder_of(new.real, create=new.was is None):  # also refuses links that were put on the way
            if new.was is not None and not new.read_only_too and _is_read_only(new.real):
                raise PermissionError(errno.EACCES, "the file is read-only", new.real)
        self._write(located, before, content)
        if new.mode is not None:
            _set_mode(new.real, new.mode)
        saved = self._disk.load(located)
        return saved.stamp if saved is not None else Stamp(0, 0, len(new.data), 0, 0)

    def _is_text_of_editor(self, was: LoadedFile | None) -> bool:
        """Tell whether the old content is one an editor shows: not a picture that becomes text."""
        return was is None or (decode(was.data) is not None and len(was.data) <= MAX_BUFFER_BYTES)

    def _write(self, located: Located, before: LoadedFile | None, wanted: Content) -> None:
        """Have the editor write, and look at what became of it, whatever it says. Raises `ToolError` when
        everything is as it was, `UncertainWriteError` when that can't be told."""
        refusal: ToolError | None = None
        try:
            self._buffers.client.write(self._buffers.path_of(located.real), wanted.raw)
        except ToolError as error:
            refusal = error
        try:
            now = self.load(located)
        except (ToolError, OSError) as error:
            raise UncertainWriteError(
                f"the editor was given the new text of {located.shown}, and whether it took it can't be told "
                f"({refusal or 'it does not show the file'}): read the file before anything else. An undo "
                "takes the text back"
            ) from error
        content = None if now is None else decode(now.data)
        if content is not None and content.text == wanted.text:
            return
        if (now and now.digest) == (before and before.digest):
            raise refusal or ToolError(
                f"the editor says that it wrote {located.shown}, but neither it nor the disk has the new "
                "text; nothing was changed"
            )
        self._buffers.note_altered(located.real)

    def remove(self, real: str, shown: str, was: LoadedFile, *, temporary: str = "") -> None:
        """Delete a file that still is what it was, on the disk."""
        located = Located(real, real, real, True, shown, "", "")
        now = self.load(located)
        if now is None or now.digest != was.digest:
            raise ToolError(f"{shown} was changed by something else meanwhile; it was not deleted")
        saved = self._disk.load(located)
        if saved is None:
            raise ToolError(f"{shown} is in the editor only, not on the disk; the person can close it there")
        self._disk.remove(real, shown, saved, temporary=temporary)
        self._buffers.note(real, shown, None)


def editor_buffers(ctx: ToolContext) -> EditorBuffers | None:
    """Return the open files of the editor a call works for, None where there is none."""
    found = ctx.services.get(EditorBuffers)
    return found if isinstance(found, EditorBuffers) else None


def unsaved_note(buffers: EditorBuffers) -> str:
    """Return a line for the result of what saw the disk, "" where nothing is unsaved. Blocks."""
    names = buffers.unsaved()
    if not names:
        return ""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return (
        f"\n[not saved in the editor, so this saw what is on the disk: {', '.join(names[:MAX_NAMED])}{more}]"
    )


def _encode(text: str, kind: Content, shown: str) -> bytes:
    """Encode the editor's text as its file on the disk is; in UTF-8 where that lacks a character."""
    if "\0" in text:
        raise ToolError(f"the editor's text of {shown} has a NUL character: it is no text file")
    raw = with_line_ends(text, kind.line_end) if kind.uniform and "\r" not in text else text
    try:
        return kind.encode(raw)
    except ToolError:
        pass  # a character that the old encoding lacks
    try:
        return raw.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"the editor's text of {shown} has half a character (U+{ord(text[error.start]):04X}); nothing "
            "was done"
        ) from error


def _text_on_disk(real: str) -> str | None:
    with suppress(OSError, ToolError):
        saved = load(real, real, max_bytes=MAX_BUFFER_BYTES)
        content = None if saved is None else decode(saved.data)
        return None if content is None else content.text
    return None


def _is_read_only(real: str) -> bool:
    return os.path.lexists(real) and not os.access(real, os.W_OK)


def _set_mode(real: str, mode: int) -> None:
    """Give a file its mode; one that stands in the editor alone has none yet."""
    try:
        with folder_of(real) as (folder, name):
            if stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.chmod(name, mode & 0o777, dir_fd=folder)
    except FileNotFoundError:
        return
