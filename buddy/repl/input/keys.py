"""The key table and the parser of the keyboard's bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Literal

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import (
    Condition,
    Filter,
    is_searching,
    vi_insert_mode,
    vi_mode,
    vi_navigation_mode,
)
from prompt_toolkit.filters.app import vi_replace_single_mode
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys

from buddy.repl.input.bursts import Bursts, Piece
from buddy.repl.input.editor import Editor

Action = Literal[
    "send",
    "newline",
    "continue_line",
    "complete",
    "complete_back",
    "queue",
    "recall_queued",
    "escape",
    "rewind",
    "interrupt",
    "leave",
    "background",
    "suspend",
    "edit",
    "expand",
    "task_panel",
    "redraw",
    "next_mode",
    "drop_note",
    "replaced",
    "paste_picture",
]

ESCAPE_S = 0.003
"""How long the rest of an escape sequence may take where the terminal runs on this machine: it writes a
sequence in one piece. What is waited here is waited between Esc and a cancelled turn."""
FAR_ESCAPE_S = 0.05
"""The same where the keys come over a network. A line that is slow or loses packets delivers a sequence in
pieces, and the first piece alone is an Esc: an arrow key would cancel the turn."""
_FAR = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")
"""What sshd sets; mosh-server is started by it and hands them on."""
SEQUENCE_S = 0.15
"""`timeoutlen`: how long a key waits for the second one of a pair. While a turn runs Esc does not wait for
one: Alt+Enter comes in one piece and leaves the second key in the queue."""

KEY_HELP: tuple[tuple[str, str], ...] = (
    ("Enter", "send; steer while the task runs"),
    ("Tab", "complete; else queue for after the turn"),
    ("text &", "new background task"),
    ("@3 text", "to task 3; @3? asks on the side"),
    ("/ ! !!", "command, shell, private shell"),
    ("Alt+Enter Ctrl+J \\Enter", "newline (Shift+Enter sends in most terminals)"),
    ("Alt+Up", "edit the last queued message"),
    ("Esc", "cancel; twice when idle: deny a request, or rewind"),
    ("Ctrl+C", "clear; cancel; twice when idle: exit"),
    ("Ctrl+_", "undo, also what Ctrl+C cleared"),
    ("Ctrl+D", "exit"),
    ("Ctrl+B", "send the running task to the background"),
    ("Ctrl+O", "expand the last folded output"),
    ("Ctrl+T", "tasks"),
    ("Ctrl+R", "search the history"),
    ("Ctrl+G", "open $EDITOR"),
    ("Ctrl+V", "attach the picture on the clipboard"),
    ("Shift+Tab", "next permission mode"),
    ("Ctrl+L Ctrl+Z", "repaint, suspend"),
    ("y a p n", "answer the marked request: yes, this session, always, no"),
)


def escape_s(environ: Mapping[str, str]) -> float:
    """Return how many seconds to wait for the rest of an escape sequence in this environment."""
    return FAR_ESCAPE_S if is_far(environ) else ESCAPE_S


def is_far(environ: Mapping[str, str]) -> bool:
    """Tell whether the keys come over a network."""
    return any(environ.get(name) for name in _FAR)


def teach_shift_enter() -> None:
    """Let the parser know what terminals send for Shift+Enter: the same as Alt+Enter. Called before the
    first key is read. No protocol is switched on that would make more of them send it: after kill -9 the
    shell would be left with keys it cannot read."""
    for sequence in ("\x1b[13;2u", "\x1b[27;2;13~", "\x1b[13;2~"):
        ANSI_SEQUENCES[sequence] = (Keys.Escape, Keys.ControlM)


class KeyFacts:
    """Conditions of the key bindings."""

    def __init__(
        self,
        editor: Editor,
        is_running: Callable[[], bool],
        has_note: Callable[[], bool],
        is_asked: Callable[[], bool],
    ) -> None:
        self.empty = Condition(lambda: not editor.buffer.text)
        self.running = Condition(is_running)
        self.note = Condition(has_note)
        self.asked = Condition(is_asked)
        self.completable = Condition(editor.is_completable)
        self.menu = Condition(lambda: editor.buffer.complete_state is not None)
        self.alone = Condition(lambda: not get_app().key_processor.input_queue)
        self.backslash = Condition(lambda: editor.buffer.document.char_before_cursor == "\\")
        self.replaceable = Condition(lambda: editor.is_replaceable)
        self.editing = ~is_searching & Condition(lambda: get_app().layout.has_focus(editor.buffer))


def bindings(do: Callable[[Action], None], editor: Editor, facts: KeyFacts) -> KeyBindings:
    """Return the table as bindings. What is not here does what readline does."""
    made = KeyBindings()

    def on(keys: tuple[str, ...], action: Action, when: Filter, *, eager: Filter | bool = False) -> None:
        def handle(_event: KeyPressEvent) -> None:
            do(action)

        made.add(*keys, filter=when & facts.editing, eager=eager)(handle)

    always = Condition(lambda: True)

    @made.add("enter", filter=~facts.backslash & facts.editing)
    def send(event: KeyPressEvent) -> None:
        editor.came = event.data[1:]  # what came in one piece with it
        do("send")
        editor.came = ""

    on(("enter",), "continue_line", facts.backslash)
    for newline in (("escape", "enter"), ("c-j",)):
        on(newline, "newline", always)
    on(("tab",), "queue", ~facts.completable & facts.running)
    on(("tab",), "complete", facts.completable)
    on(("s-tab",), "next_mode", ~facts.menu)
    on(("s-tab",), "complete_back", facts.menu)
    on(("escape", "up"), "recall_queued", always)
    on(("escape",), "escape", ~vi_mode | vi_navigation_mode, eager=facts.running & facts.alone)
    on(("escape", "escape"), "rewind", facts.empty & ~facts.running & ~facts.asked & ~vi_mode)
    on(("c-c",), "interrupt", always)
    on(("<sigint>",), "interrupt", always)
    on(("c-d",), "leave", facts.empty)
    for background in (("c-b",), ("c-x", "c-b")):
        on(background, "background", facts.empty & facts.running)
    on(("c-z",), "suspend", always)
    for edit in (("c-g",), ("c-x", "c-e")):
        on(edit, "edit", always)
    on(("c-v",), "paste_picture", ~vi_mode | vi_insert_mode)
    on(("c-o",), "expand", always)
    on(("c-t",), "task_panel", always)
    on(("c-l",), "redraw", always)
    on(("backspace",), "drop_note", facts.empty & facts.note)

    @made.add(Keys.BracketedPaste, filter=facts.editing)
    def paste(event: KeyPressEvent) -> None:
        was_replaceable = editor.is_replaceable
        editor.paste(event.data)
        if was_replaceable:
            do("replaced")

    typing = facts.replaceable & facts.editing & (~vi_mode | vi_insert_mode)

    @made.add(Keys.Any, filter=typing)
    def replace(event: KeyPressEvent) -> None:
        editor.replace(event.data)
        do("replaced")

    for end in (
        "right",
        "end",
        "c-e",
        "c-f",
    ):  # the cursor is there already: nothing else would keep the line

        @made.add(end, filter=typing)
        def keep(_event: KeyPressEvent) -> None:
            editor.keep_line()

    _add_vi_characters(made, facts.editing)
    return made


def _add_vi_characters(made: KeyBindings, editing: Filter) -> None:
    """Replace vi's keys for single characters: prompt_toolkit's count code points."""

    def cut(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if count := buffer.document.get_cursor_right_position(event.arg):
            event.app.clipboard.set_text(buffer.delete(count))

    @made.add("s", filter=editing & vi_navigation_mode)
    def substitute(event: KeyPressEvent) -> None:
        cut(event)
        event.app.vi_state.input_mode = InputMode.INSERT

    @made.add("X", filter=editing & vi_navigation_mode)
    def cut_before(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if count := -buffer.document.get_cursor_left_position(event.arg):
            event.app.clipboard.set_text(buffer.delete_before_cursor(count))

    @made.add(Keys.Any, filter=editing & vi_replace_single_mode)
    def replace(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if count := buffer.document.get_cursor_right_position():
            buffer.delete(count)
            buffer.insert_text(event.data, move_cursor=False)
        event.app.vi_state.input_mode = InputMode.NAVIGATION

    made.add("x", filter=editing & vi_navigation_mode)(cut)


_BEGIN = "\x1b[200~"
_END = "\x1b[201~"
_WAYS_OUT = ("\x03", "\x04")
"""Ctrl+C and Ctrl+D: no text that is pasted holds one by itself."""
UNFINISHED_S = 0.5
"""A paste that has been quiet for so long may be ended by a key."""


class KeyParser(Vt100Parser):
    """Calls back with each key. `keys_of` takes out what the terminal answers. A paste without an end is
    ended by Ctrl+C or Ctrl+D; what had come of it is then pasted, and the key does nothing else."""

    def __init__(
        self,
        feed_key_callback: Callable[[KeyPress], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        brackets: bool = True,
    ) -> None:
        self._clock = clock
        self._bursts = Bursts(clock, brackets=brackets)
        self._begun = ""
        self.keys_of: Callable[[str], str] = lambda data: data
        self._pieces: list[str] = []
        self._tail = ""
        self._heard_at = 0.0
        super().__init__(feed_key_callback)

    def feed(self, data: str) -> None:
        """Take input."""
        now = self._clock()
        if not self._in_bracketed_paste:
            self._feed_keys(data if _BEGIN in data else self.keys_of(data))
            if not self._pieces:
                self._heard_at = now
        elif data in _WAYS_OUT and now - self._heard_at >= UNFINISHED_S:
            self._finish("".join(self._pieces), "")
        else:
            self._heard_at = now
            self._gather(data)

    @property
    def is_waiting(self) -> bool:
        """Tell whether keys are held back until the input pauses."""
        return self._bursts.is_waiting

    def quiet(self) -> None:
        """Handle a pause in the input."""
        self._press(self._bursts.release())

    def _feed_keys(self, data: str) -> None:
        """Handle keys up to the beginning of a bracketed paste, which may itself come in pieces."""
        whole = self._begun + data
        at = whole.find(_BEGIN)
        if at >= 0:
            keys, rest = whole[len(self._begun) : at], whole[max(at, len(self._begun)) :]
            self._begun = ""
            if keys:
                self._press(self._bursts.feed(keys))
            self.quiet()
            super().feed(rest)
            return
        self._begun = next(
            (whole[-length:] for length in range(len(_BEGIN) - 1, 0, -1) if whole.endswith(_BEGIN[:length])),
            "",
        )
        if data:
            self._press(self._bursts.feed(data))

    def _press(self, pieces: list[Piece]) -> None:
        for kind, text in pieces:
            match kind:
                case "keys":
                    super().feed(text)
                case "paste":
                    self.feed_key_callback(KeyPress(Keys.BracketedPaste, text))
                case "enter":
                    self.feed_key_callback(KeyPress(Keys.ControlM, "\r" + text))

    def reset(self, request: bool = False) -> None:
        """Forget an unfinished sequence."""
        super().reset(request)
        self._begun = ""
        self._pieces.clear()
        self._tail = ""

    def _gather(self, data: str) -> None:
        self._pieces.append(data)
        looked_at = self._tail + data
        at = looked_at.find(_END)
        self._tail = looked_at[1 - len(_END) :]
        if at >= 0:
            text = "".join(self._pieces)
            end = len(text) - len(looked_at) + at
            self._finish(text[:end], text[end + len(_END) :])

    def _finish(self, pasted: str, rest: str) -> None:
        self._pieces.clear()
        self._tail = ""
        self._in_bracketed_paste = False
        self.feed_key_callback(KeyPress(Keys.BracketedPaste, pasted))
        self.feed(rest)
