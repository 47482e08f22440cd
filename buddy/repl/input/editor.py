"""The input line: its buffer, when it was begun, and long pastes that stand in it as `[pasted #1, 842
lines]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History

from buddy.agent.lazy_regex import pattern
from buddy.repl.input.approval_line import TypedLine
from buddy.repl.input.graphemes import GraphemeBuffer, span_at
from buddy.safety.sanitise import clean
from buddy.workspace.files.line_diff import alike_at_end, alike_at_start

FOLDED_CHARS = 4096
FOLDED_LINES = 15
_MARK = pattern(r"\[pasted #\d+, \d+ (?:lines|characters)\]")


class Pastes:
    """Pasted texts by their marks. No two marks are the same."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """Return the text as inserted into the line: a mark for a long one."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if len(text) <= FOLDED_CHARS and lines <= FOLDED_LINES:
            return text
        size = f"{lines} lines" if lines > FOLDED_LINES else f"{len(text)} characters"
        mark = f"[pasted #{len(self._texts) + 1}, {size}]"
        self._texts[mark] = text
        return mark

    def expand(self, line: str) -> str:
        """Return the line with every mark replaced by its text."""
        return _MARK().sub(lambda found: self._texts.get(found[0], found[0]), line) if self._texts else line

    def marks(self, line: str) -> list[tuple[int, int]]:
        """Return start and end of each mark in a line."""
        return [found.span() for found in _MARK().finditer(line) if found[0] in self._texts]

    def mend(self, before: str, after: str) -> tuple[str, int] | None:
        """Return a line in which an edit broke a mark, without what is left of the mark, and where the cursor
        belongs; None where none was broken. A mark goes as a whole: what is left of one would be sent as
        words nobody wrote, and its text would be lost unseen."""
        marks = self.marks(before)
        if not marks:
            return None
        begin, end = _changed_range(before, after, marks)
        inserted = after[begin : len(after) - len(before) + end]
        broken = _broken_marks(marks, begin, end)
        if not broken:
            return None
        begin, end = min(begin, broken[0][0]), max(end, broken[-1][1])
        return before[:begin] + inserted + before[end:], begin + len(inserted)


def _broken_marks(marks: Sequence[tuple[int, int]], begin: int, end: int) -> list[tuple[int, int]]:
    """Return the marks of which an edit took or parted a piece, not the whole."""
    return [
        (first, last)
        for first, last in marks
        if first < end and begin < last and not begin <= first <= last <= end
    ]


def _changed_range(before: str, after: str, marks: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the range of a line that was changed. A bracket typed beside a mark could also have been typed
    inside it, two characters further on: of several possible places the one that breaks no mark is chosen."""
    latest = alike_at_start(before, after)
    kept = alike_at_end(before, after, min(len(before), len(after)) - latest)
    taken, put = len(before) - kept - latest, len(after) - kept - latest
    if taken and put:
        return latest, latest + taken
    earliest = latest - alike_at_end(before[: latest + taken], after[: latest + put], latest)
    edges = [edge - size for mark in marks for edge in mark for size in (0, taken)]
    places = [latest, *(place for place in edges if earliest <= place <= latest)]
    begin = next((place for place in places if not _broken_marks(marks, place, place + taken)), latest)
    return begin, begin + taken


LINE_CHARS = 100_000
"""As much is shown in the line at most: beyond it a key takes tenths of a second."""
_COMPLETABLE = pattern(r"(?:^\s*/[\w?-]*(?:\s.*)?|(?:^|\s)@(?:\\.|[^\s@])?(?:\\.|\S)*|^\s*!.*)$")


class Editor:
    """Owns the buffer. Long pastes stand in it as marks, each of which is one character to the cursor and to
    whatever deletes. `mentions` returns the mentions that stand for a pasted text, "" for most. `touched_at`:
    when the person last did something at the keyboard; `came`: what came in one piece with the Enter that is
    being handled."""

    def __init__(
        self,
        history: History,
        completer: Completer | None,
        clock: Callable[[], float],
        pastes: Pastes,
        mentions: Callable[[str], str] = lambda _pasted: "",
    ) -> None:
        self._clock = clock
        self._mentions = mentions
        self._pastes = pastes
        self._text, self._moved_in, self._cursor, self._entry = "", "", 0, 0
        self._is_replacing = False
        self._begun_at = 0.0
        self.touched_at = float("-inf")
        self._was_empty = True
        self._pasted = self._is_replaceable = False
        self.came = ""
        self.buffer = GraphemeBuffer(
            history,
            completer,
            complete_while_typing=Condition(self.is_completable) if completer is not None else False,
            on_text_changed=self._on_text_change,
            on_cursor_position_changed=self._on_cursor_move,
        )

    def touch(self) -> None:
        """Record a key that does not change the text."""
        self.touched_at = self._clock()

    @property
    def text(self) -> str:
        """Text of the input line, folds unresolved."""
        return self.buffer.text

    @property
    def is_typed(self) -> bool:
        """Tell whether everything in the line was typed: nothing was pasted or inserted."""
        return not self._pasted

    @property
    def is_draft(self) -> bool:
        """Tell whether the line holds a paste of several lines that the user has not confirmed with Enter."""
        return self._pasted and "\n" in self.buffer.text

    def is_completable(self) -> bool:
        """Tell whether the text before the cursor can be completed: a command, a path, a file mention."""
        before = self.buffer.document.current_line_before_cursor
        return self.buffer.complete_state is not None or _COMPLETABLE().search(before) is not None

    @property
    def is_replaceable(self) -> bool:
        """Tell whether the line was refused and not touched since; newly typed text then replaces it."""
        return self._is_replaceable

    def _on_text_change(self, buffer: Buffer) -> None:
        self.touched_at, self._is_replaceable = self._clock(), False
        before, self._text = self._text, buffer.text
        entry, self._entry = self._entry, buffer.working_index
        if entry == self._entry and not self._is_replacing:
            mended = self._pastes.mend(before, buffer.text)
            if mended is not None:
                buffer.document = Document(*mended)
                return
        if not buffer.text:
            self._was_empty, self._pasted = True, False
        elif self._was_empty:
            self._was_empty = False
            self._begun_at = self._clock()

    def _on_cursor_move(self, buffer: Buffer) -> None:
        """Move a cursor that stands inside a mark or a character past it."""
        before, self._cursor = self._cursor, buffer.cursor_position
        self._is_replaceable = False
        is_edit, self._moved_in = self._moved_in != buffer.text, buffer.text
        for begin, end in self._pastes.marks(buffer.text):
            if begin < self._cursor < end:
                buffer.cursor_position = end if before < self._cursor else begin
                return
        if is_edit or not 0 < self._cursor < len(
            buffer.text
        ):  # where something grows the next piece may join it
            return
        begin, end = span_at(buffer.text, self._cursor)
        if begin < self._cursor:
            buffer.cursor_position = end if before == begin else begin

    def paste(self, data: str) -> None:
        """Insert pasted text; a long one as a mark, paths of pictures as mentions."""
        if not self.buffer.text.lstrip().startswith("!") and (mention := self._mentions(data)):
            self.mention(mention)
            return
        text = clean(data.replace("\r\n", "\n").replace("\r", "\n"), tab_width=4, blank_lines=0)
        if not text:
            return
        if self._is_replaceable:
            self._replace("")
        self.buffer.insert_text(self._pastes.fold(text))
        self._pasted = True

    def mention(self, text: str) -> None:
        """Insert mentions at the cursor, apart from the words beside them."""
        if self._is_replaceable:
            self._replace("")
        before = self.buffer.document.char_before_cursor
        gap = " " if before and not before.isspace() else ""
        self.buffer.insert_text(f"{gap}{text} ")
        self._pasted = True

    def put(self, text: str) -> None:
        """Replace the line by text that was not typed (a queued message, what another editor wrote)."""
        self._replace(text if len(text) <= LINE_CHARS else self._pastes.fold(text))
        self._pasted = bool(text)

    def put_back(self, text: str) -> None:
        """Put text before what stands there."""
        rest = self.buffer.text
        self.put(f"{text}\n{rest}" if rest.strip() else text)

    def offer(self, text: str) -> bool:
        """Put a refused line back, to be replaced by what is typed next, or edited. Return False where
        another one has been begun: that one stays, and the refused one is in the history."""
        if self.buffer.text.strip():
            if text not in self.buffer.history.get_strings():
                self.buffer.history.append_string(text)
            return False
        self.put(text)
        self.mark_replaceable()
        return True

    def mark_replaceable(self) -> None:
        """Let what is typed next take the place of the line, as if it were selected."""
        self._is_replaceable = True

    def keep_line(self) -> None:
        """Add what is typed next to the line instead."""
        self._is_replaceable = False

    def replace(self, typed: str) -> None:
        """Type over the refused line; undo brings it back."""
        self._replace("")
        self.buffer.insert_text(typed)

    def has_fold(self) -> bool:
        """Tell whether the line contains a folded paste."""
        return bool(self._pastes.marks(self.buffer.text))

    def unfold(self) -> bool:
        """Show pasted text in full in the line, unless there is too much of it to be edited there."""
        text = self.expand()
        if len(text) > LINE_CHARS:
            return False
        self._replace(text)
        return True

    def expand(self) -> str:
        """Return the line with every mark replaced by what was pasted."""
        return self._pastes.expand(self.buffer.text)

    def _replace(self, text: str) -> None:
        self._is_replacing = True
        self.buffer.document = Document(text, len(text))
        self._is_replacing = False

    def typed_line(self) -> TypedLine:
        """Return the line as it is about to be sent."""
        return TypedLine(self.buffer.text, self._pasted, self._begun_at, self._clock(), self.came)

    def take(self) -> str:
        """Return the resolved line, remembered in the history; the editor is empty afterwards."""
        text = self.expand()
        self.buffer.append_to_history()
        self.clear()
        return text

    def wipe(self) -> None:
        """Empty the line so that undo brings it back."""
        text = self.buffer.text
        self.clear()
        self._replace(text)
        self.buffer.save_to_undo_stack()
        self._replace("")

    def clear(self) -> None:
        """Empty the line."""
        self.buffer.reset()
        self._text, self._moved_in, self._cursor = "", "", 0
        self._entry = self.buffer.working_index
        self._was_empty, self._pasted, self._is_replaceable = True, False, False
