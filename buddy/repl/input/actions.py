"""Actions of the keys: on the editor, on the screen, or as an intent for the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from buddy.repl.exit import CONFIRM_S, TWICE_S, Ending, ask_before_leaving
from buddy.repl.input.approval_line import (
    TypedLine,
    Waiting,
    answer_of,
    came_whole,
    denial_of,
    doubt_of,
    refusal,
    refusal_of,
)
from buddy.repl.input.editor import Editor
from buddy.repl.input.keys import KEY_HELP, Action
from buddy.repl.intents import (
    ApprovalAnswer,
    Cancel,
    DropNote,
    Intent,
    NextMode,
    Queue,
    RecallQueued,
    Rewind,
    TaskPanel,
    ToBackground,
    parse_line,
)
from buddy.repl.view.blocks import Block, Expanded, PlainText
from buddy.repl.view.state import InboxRow, ViewState
from buddy.safety.sanitise import visible

NO_LINE = ("", 0.0)
DRAFT = "Pasted: Enter sends it."


class ActionStage(Protocol):
    """Screen operations used by key actions."""

    def print(self, *blocks: Block) -> None:
        """Print blocks above the prompt."""
        ...

    def hint(self, text: str) -> None:
        """Show a line above the footer for a few seconds."""
        ...

    def end(self, ending: Ending) -> None:
        """Leave the screen."""
        ...

    def suspend(self) -> None:
        """Stop, as Ctrl+Z does in a shell."""
        ...

    def edit(self) -> None:
        """Open the line in the person's editor."""
        ...

    def redraw(self) -> None:
        """Draw the last screenful again."""
        ...

    def paste_picture(self) -> None:
        """Attach the picture on the person's clipboard."""
        ...


class Actions:
    """Carries out the actions of the key table."""

    def __init__(
        self,
        *,
        editor: Editor,
        state: ViewState,
        stage: ActionStage,
        act: Callable[[Intent], None],
        last_folded: Callable[[], Expanded | None],
        clock: Callable[[], float],
        coming: Callable[[], bool],
    ) -> None:
        """`coming`: whether the session has a turn that no event has reported yet."""
        self._editor = editor
        self._state = state
        self._stage = stage
        self._act = act
        self._last_folded = last_folded
        self._clock = clock
        self._coming = coming
        self._interrupted_at = float("-inf")
        self._left_at = self._denied_at = float("-inf")
        self._denied = self._given_back = ""
        self._doubted = NO_LINE

    def do(self, action: Action) -> None:
        """Carry out one action."""
        self._editor.touch()
        match action:
            case "send":
                self._send()
            case "newline":
                self._editor.buffer.newline(copy_margin=False)
            case "continue_line":
                self._editor.buffer.delete_before_cursor()
                self._editor.buffer.newline(copy_margin=False)
            case "complete":
                self._complete(forward=True)
            case "complete_back":
                self._complete(forward=False)
            case "queue":
                self._queue()
            case "recall_queued":
                self._act(RecallQueued())
            case "escape":
                self._escape()
            case "rewind":
                self._act(Rewind())
            case "interrupt":
                self._interrupt()
            case "leave":
                self.leave("Ctrl+D")
            case "background":
                self._act(ToBackground())
            case "suspend":
                self._stage.suspend()
            case "edit":
                self._stage.edit()
            case "redraw":
                self._stage.redraw()
            case "expand":
                self.expand()
            case "task_panel":
                self._act(TaskPanel())
            case "next_mode":
                self._act(NextMode())
            case "drop_note":
                self._act(DropNote())
            case "paste_picture":
                self._stage.paste_picture()
            case "replaced":
                self._stage.hint("")  # the hint was about the previous line

    def is_task_busy(self) -> bool:
        """Tell whether the foreground task has a turn running or starting."""
        task = self._state.tasks.get(self._state.focus)
        return (task is not None and task.is_running) or self._coming()

    def _something_runs(self) -> bool:
        """Tell whether Esc has something to end: the foreground turn, or a command the user started."""
        return self.is_task_busy() or bool(self._state.facts.own)

    def request_waits(self) -> bool:
        """Tell whether a request for approval waits."""
        return self._state.marked_row() is not None

    def note_waits(self) -> bool:
        """Tell whether a note of a finished task would be sent with the next prompt."""
        return any(row.kind == "note" for row in self._state.facts.queue)

    def _send(self) -> None:
        if self._close_menu():
            return
        self._stage.hint("")  # hints about the previous line
        if self._editor.came and self._editor.is_draft:  # a paste goes on after a pause of the connection
            self._editor.buffer.newline(copy_margin=False)
            self._stage.hint(DRAFT)
            return
        if self._editor.text.strip() == "?":
            self._editor.clear()
            self._stage.print(PlainText("\n".join(f"{keys:24} {what}" for keys, what in KEY_HELP)))
            return
        line, waiting = self._editor.typed_line(), self._waiting()
        match answer_of(line, waiting) or refusal_of(line, waiting):
            case "too soon" | "pasted" | "no rule" | "folded" | "which" as why:
                self._editor.clear()
                self._stage.hint(refusal(why, line, waiting))
            case ApprovalAnswer() as answer:
                self._editor.clear()
                self._act(answer)
            case None if (why := self._doubt(line, waiting)) and not self._insists(line):
                if doubt_of(line.text, waiting):
                    self._editor.mark_replaceable()
                self._stage.hint(why)
            case None:
                self._send_line()

    def _waiting(self) -> Waiting:
        asks = any(row.kind == "question" for row in self._state.facts.queue)
        return Waiting(self._state.inbox, question=asks)

    def _doubt(self, line: TypedLine, waiting: Waiting) -> str:
        """Return the reason a line is sent only by a second Enter; "" for most."""
        text = line.text.strip()
        if why := doubt_of(text, waiting):
            return why
        if self._editor.is_replaceable and text and text == self._given_back.strip():
            return "This was refused. Enter again sends it as it is; typing replaces it."
        if text.startswith("!") and (came_whole(line) or (line.pasted and "\n" in text)):
            return "Pasted: Enter again runs it in your shell."
        return ""

    def _insists(self, line: TypedLine) -> bool:
        """Tell whether Enter was pressed on the same line before, and remember the line for next time."""
        before, self._doubted = self._doubted, (line.text, line.begun_at)
        return self._doubted == before

    def remember_refused(self, text: str) -> None:
        """Remember a refused line that stands in the editor again."""
        self._given_back, self._doubted = text, NO_LINE

    def _send_line(self) -> None:
        self._given_back, self._doubted = "", NO_LINE
        typed = self._editor.is_typed
        line = parse_line(self._editor.expand(), typed=typed)
        if line is None:
            self._editor.clear()
            return
        self._editor.take()
        self._act(line)

    def _close_menu(self) -> bool:
        """Take the chosen completion. A command is sent with the same key, anything else goes on."""
        menu = self._editor.buffer.complete_state
        if menu is None:
            return False
        chosen = menu.current_completion is not None
        self._editor.buffer.complete_state = None
        return chosen and not self._editor.text.startswith("/")

    def _queue(self) -> None:
        if self._editor.text.strip():
            self._act(Queue(self._editor.take().strip()))

    def _complete(self, *, forward: bool) -> None:
        buffer = self._editor.buffer
        if buffer.complete_state is None:
            buffer.start_completion(insert_common_part=False, select_first=True)
        elif forward:
            buffer.complete_next()
        else:
            buffer.complete_previous()

    def _escape(self) -> None:
        menu = self._editor.buffer.complete_state
        if menu is not None:
            self._editor.buffer.cancel_completion()
        if menu is not None and menu.completions:
            return  # one that is still empty is not on the screen: Esc is not about it
        if self._something_runs():
            self._act(Cancel())
        elif not self._editor.text and (row := self._state.marked_row()) is not None:
            self._deny(row)

    def _deny(self, row: InboxRow) -> None:
        """Deny a background task's request by a second Esc: the first may have meant something else."""
        now = self._clock()
        match denial_of(row, now):
            case ApprovalAnswer() as answer if (
                self._denied == row.request_id and now - self._denied_at < CONFIRM_S
            ):
                self._stage.hint("")
                self._act(answer)
            case ApprovalAnswer():
                self._denied, self._denied_at = row.request_id, now
                self._stage.hint(f"Esc again denies {row.name}: {visible(row.title)}")
            case _:
                self._stage.hint("Not denied: that request has only just come. Esc twice denies it.")

    def _interrupt(self) -> None:
        now = self._clock()
        if self._editor.text:
            self._editor.wipe()
        elif self._something_runs():
            self._act(Cancel())
        elif now - self._interrupted_at < TWICE_S:
            self._stage.end("left")
        else:
            self._interrupted_at = now
            running = self._state.running_names()
            self._stage.hint(
                ask_before_leaving(running, "Ctrl+C", TWICE_S) if running else "Ctrl+C again exits"
            )

    def leave(self, key: str) -> None:
        """Leave; while something runs, ask first. `key` is what the person pressed or typed."""
        running = self._state.running_names()
        now = self._clock()
        if not running or now - self._left_at < CONFIRM_S:
            self._stage.end("left")
            return
        self._left_at = now
        self._stage.hint(ask_before_leaving(running, key))

    def expand(self) -> None:
        """Show a folded paste in the line; print a folded request, or the last folded output, in full."""
        folded = next((row for row in self._state.inbox if row.folded), None)
        if self._editor.has_fold():
            if not self._editor.unfold():
                self._stage.hint("too much to be shown in the line: Ctrl+G opens it in your editor")
        elif folded is not None:
            folded.unfold()
            self._stage.print(Expanded(folded.block()))
        elif (block := self._last_folded()) is not None:
            self._stage.print(block)
        else:
            self._stage.hint("nothing is folded")
