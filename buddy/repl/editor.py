"""The input line: its buffer, what was pasted into it, and when the line was begun."""

from __future__ import annotations

import re
from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History

from buddy.repl.approvals import TypedLine
from buddy.safety.sanitise import clean

FOLDED_CHARS = 4096
FOLDED_LINES = 15
_FOLD = re.compile(r"\[pasted #(\d+), \d+ (?:lines|characters)\]")
_COMPLETABLE = re.compile(r"(?:^\s*/[\w?-]*(?:\s.*)?|(?:^|\s)@(?:\\ |[^\s@])*|^\s*!.*)$")


class Editor:
    """Owns the buffer. Long pastes stand in it as `[pasted #1, 842 lines]` until the line is sent.
    `touched_at`: when the person last did something at the keyboard."""

    def __init__(self, history: History, completer: Completer | None, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pastes: dict[int, str] = {}
        self._begun_at = 0.0
        self.touched_at = float("-inf")
        self._was_empty = True
        self._pasted = False
        self.buffer = Buffer(
            name="input",
            multiline=True,
            history=history,
            completer=completer,
            complete_while_typing=Condition(self.is_completable) if completer is not None else False,
            on_text_changed=self._changed,
        )

    def touched(self) -> None:
        """A key was pressed that does not change the text."""
        self.touched_at = self._clock()

    @property
    def text(self) -> str:
        """What stands in the line, folds unresolved."""
        return self.buffer.text

    @property
    def is_typed(self) -> bool:
        """Whether nothing in the line was pasted or put there."""
        return not self._pasted

    def is_completable(self) -> bool:
        """Whether something before the cursor can be completed: a command, a path, a file mention."""
        before = self.buffer.document.current_line_before_cursor
        return self.buffer.complete_state is not None or _COMPLETABLE.search(before) is not None

    def _changed(self, buffer: Buffer) -> None:
        self.touched_at = self._clock()
        if not buffer.text:
            self._was_empty, self._pasted = True, False
        elif self._was_empty:
            self._was_empty = False
            self._begun_at = self._clock()

    def paste(self, data: str) -> None:
        """Insert pasted text; a long one as a fold."""
        text = clean(data.replace("\r\n", "\n").replace("\r", "\n"), tab_width=4, blank_lines=0)
        if not text:
            return
        lines = text.count("\n") + 1
        if len(text) > FOLDED_CHARS or lines > FOLDED_LINES:
            number = len(self._pastes) + 1
            self._pastes[number] = text
            size = f"{lines} lines" if lines > FOLDED_LINES else f"{len(text)} characters"
            text = f"[pasted #{number}, {size}]"
        self.buffer.insert_text(text)
        self._pasted = True

    def put(self, text: str) -> None:
        """Replace the line by text that was not typed (a queued message, what another editor wrote)."""
        self.buffer.text = text
        self.buffer.cursor_position = len(text)
        self._pasted = bool(text)

    def put_back(self, text: str) -> None:
        """Put text before what stands there."""
        rest = self.buffer.text
        self.put(f"{text}\n{rest}" if rest.strip() else text)

    def has_fold(self) -> bool:
        """Whether a folded paste stands in the line."""
        return any(int(found[1]) in self._pastes for found in _FOLD.finditer(self.buffer.text))

    def unfold(self) -> None:
        """Show pasted text in full in the line."""
        text = self.resolved()
        self.buffer.text = text
        self.buffer.cursor_position = len(text)

    def resolved(self) -> str:
        """The line with every fold replaced by what was pasted."""
        return _FOLD.sub(lambda found: self._pastes.get(int(found[1]), found[0]), self.buffer.text)

    def typed_line(self) -> TypedLine:
        """The line as it is about to be sent."""
        return TypedLine(self.buffer.text, self._pasted, self._begun_at, self._clock())

    def take(self) -> str:
        """The resolved line, remembered in the history; the editor is empty afterwards."""
        text = self.resolved()
        self.buffer.append_to_history()
        self.clear()
        return text

    def clear(self) -> None:
        """Empty the line."""
        self.buffer.reset()
        self._was_empty, self._pasted = True, False
        self._pastes.clear()
