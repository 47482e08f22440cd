"""The REPL of a dumb terminal: plain lines in and out, no live region."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable

from buddy.agent.events import TaskEvent
from buddy.agent.formatting import format_count
from buddy.repl.exit import CONFIRM_S, TWICE_S, Ending, ask_before_leaving, end_on_signals, hold_interrupts
from buddy.repl.input.approval_line import (
    SEEN_BEFORE_S,
    TypedLine,
    Waiting,
    answer_of,
    answers,
    doubt_of,
    letters_only,
    refusal,
    refusal_of,
)
from buddy.repl.intents import ApprovalAnswer, Cancel, Intent, NewTask, Prompt, Slash, ToTask, parse_line
from buddy.repl.render.style import Look
from buddy.repl.screen.output import TerminalWriter, encode, terminal_size
from buddy.repl.screen.paint_queue import LazyPainter
from buddy.repl.screen.screen import Countdown
from buddy.repl.view.blocks import (
    ApprovalAsked,
    Block,
    CommandEcho,
    Expanded,
    NoteBlock,
    PlainText,
    UserPrompt,
    gap_before,
)
from buddy.repl.view.state import InboxRow, SessionFacts, ViewState
from buddy.repl.view.view import focus, fold
from buddy.safety.sanitise import clean, visible

READ_BYTES = 65536
GATHER_S = 0.03
"""Lines that arrive within this time of each other came in one piece."""


class LineInput:
    """Reads lines from a descriptor.

    `on_entered` receives a text and whether it was pasted: several lines are one text unless each is a
    command. `on_end` is called at each end of the input; a terminal continues after one (Ctrl+D).
    """

    def __init__(
        self, fd: int, encoding: str, on_entered: Callable[[str, bool], None], on_end: Callable[[], None]
    ) -> None:
        self._fd = fd
        self._encoding = encoding
        self._on_entered = on_entered
        self._on_end = on_end
        self._partial = b""
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start reading."""
        self._loop = loop
        loop.add_reader(self._fd, self._read)

    def close(self) -> None:
        """Stop reading."""
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None:
            self._loop.remove_reader(self._fd)

    @property
    def unfinished(self) -> str:
        """Return the input without a line end so far; Ctrl+D submits it."""
        return self._partial.decode(self._encoding, "replace")

    def forget(self) -> None:
        """Drop an unfinished line after an interrupt, as the terminal does."""
        self._partial = b""
        self._lines.clear()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self._hand_over()
            self._on_end()
            return
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._lines += (line.decode(self._encoding, "replace").removesuffix("\r") for line in lines)
        if self._lines and self._loop is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(GATHER_S, self._hand_over)

    def _hand_over(self) -> None:
        lines, self._lines = self._lines, []
        pasted = len(lines) > 1
        if pasted and all(line.startswith("/") for line in lines):
            for line in lines:
                self._on_entered(line, True)
        elif lines:
            self._on_entered("\n".join(lines), pasted)


class LineOutput:
    """Writes blocks and the prompt. `on_gone` is called when the terminal or pipe accepts no more."""

    def __init__(self, fd: int, encoding: str, look: Look, on_gone: Callable[[], None]) -> None:
        self._fd = fd
        self._encoding = encoding
        self._terminal = TerminalWriter(fd, on_gone)
        self._prompt = look.glyphs.prompt + " "
        self._before: Block | None = None
        self.paint = LazyPainter(look)
        self.at_prompt = False

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on, a stopped terminal (Ctrl+S) delays nothing but its own output."""
        self._terminal.attach(loop, lambda: None)

    def close(self) -> None:
        """Write the rest, then nothing more."""
        self.leave_prompt()
        self._terminal.close()

    @property
    def columns(self) -> int:
        """Return the width of the terminal."""
        return terminal_size(self._fd).columns

    def blocks(self, *blocks: Block) -> bool:
        """Write blocks; return whether any was visible."""
        text = ""
        for block in blocks:
            shown = Expanded(block) if isinstance(block, ApprovalAsked) else block  # no key unfolds it here
            painted = self.paint(shown, self.columns)
            if painted:
                text += ("\n" if gap_before(self._before, block) else "") + painted
                self._before = block
        if text:
            self.say(text)
        return bool(text)

    def say(self, text: str) -> None:
        """Write whole lines."""
        self.leave_prompt()
        self._write(text)

    def ask(self, unfinished: str = "") -> None:
        """Write the prompt unless it is there, and the unfinished line after it."""
        if not self.at_prompt:
            self.at_prompt = True
            self._write(self._prompt + unfinished)

    def leave_prompt(self) -> None:
        """End the line of the prompt."""
        if self.at_prompt:
            self.at_prompt = False
            self._write("\n")

    def note_new_line(self) -> None:
        """Note that the cursor is on a new line: something was entered, or another program wrote."""
        self.at_prompt = False
        self._before = None

    def _write(self, text: str) -> None:
        self._terminal.write(encode(text, self._encoding))


PROMPT_AFTER_S = 0.12
"""Quiet time before the prompt: a command's output comes before it, in one piece."""

TURN_WITHIN_S = 5.0
"""Wait for the turn of a sent prompt: at the start no session is open yet."""

LINE_HELP = """\
Enter     send; while the task runs: steer it
text \\    continue the line after Enter
text &    new background task
@3 text   send to task 3; @3? asks a side question
/ ! !!    command, shell, private shell
y a p n   answer the announced request: yes, this session, always, no
Ctrl+C    cancel; twice when idle: exit
Ctrl+D    exit
/help     list the commands; /more prints folded output in full"""


NOT_SENT = "not sent: Enter sends it, Ctrl+D again exits\n"


class LineRepl:
    """Reads lines from one descriptor and writes blocks to another."""

    def __init__(
        self,
        *,
        look: Look,
        stdin: int,
        stdout: int,
        encoding: str,
        facts: Callable[[], SessionFacts],
        act: Callable[[Intent], None],
        clock: Callable[[], float],
        greeting_within_s: float = 0,
    ) -> None:
        """Delay the first prompt by at most `greeting_within_s` for the notices of the opening session;
        `touch` follows them."""
        self.state = ViewState()
        self.state.facts = facts()
        self._input = LineInput(stdin, encoding, self._enter, self._end_of_input)
        self._output = LineOutput(stdout, encoding, look, lambda: self.end("gone"))
        self._facts = facts
        self._act = act
        self._clock = clock
        self._ended: asyncio.Future[Ending] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._quiet = Countdown(self._ask)
        self._continued_lines: list[str] = []
        self._typed: list[str] = []
        self._draft: list[str] = []
        self._doubted_letter = ""
        self._greeting_within_s, self._greeting_due = greeting_within_s, float("-inf")
        self._turn_due = self._interrupted_at = self._left_at = self._entered_at = float("-inf")

    async def run(self, events: AsyncIterator[list[TaskEvent]]) -> Ending:
        """Run until the user leaves or `end` is called."""
        loop = self._loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        self._input.attach(loop)
        self._output.attach(loop)
        show = loop.create_task(self._show(events))
        show.add_done_callback(self._source_ended)
        interrupts = hold_interrupts(lambda: loop.call_soon_threadsafe(self._interrupt))
        try:
            with interrupts, end_on_signals(loop, self.end, None, self._continue):
                self._greeting_due = self._clock() + self._greeting_within_s
                (self._ask_when_quiet if self._greeting_within_s else self._ask)()
                return await self._ended
        finally:
            self._input.close()
            self._quiet.stop()
            show.cancel()
            await asyncio.gather(show, return_exceptions=True)
            if unsent := self._unsent():
                self._output.say(f"not sent: {clean(unsent)}\n")
            self._output.close()

    def end(self, ending: Ending) -> None:
        """Leave; the first reason counts."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(ending)

    def leave(self) -> None:
        """Leave as `/quit` does: the first time while something runs, say what would end."""
        self._leave("/quit")

    def print(self, *blocks: Block) -> None:
        """Print blocks; the prompt follows after a quiet moment."""
        blocks = tuple(
            block for block in blocks if not isinstance(block, CommandEcho)
        )  # the terminal has echoed it
        if self._output.blocks(*blocks):
            self._turn_due = float("-inf")
            self._ask_when_quiet()

    def expand(self) -> None:
        """Print the last folded output in full."""
        block = self._output.paint.expand_last(self.state.folded, self._output.columns)
        if block is None:
            self.hint("nothing is folded")
        else:
            self.print(block)

    def hint(self, text: str) -> None:
        """Print a temporary text, because nothing else is there."""
        self.print(NoteBlock("hint", text))

    def put(self, text: str, *, over: bool) -> None:
        """Print the text for copying: the line belongs to the terminal."""
        if text and over:
            self.hint(f"not sent: {text}")

    def edit(self) -> None:
        """Say that there is no line to edit."""
        self.hint("there is no editor on a dumb terminal; set TERM")

    def theme(self, name: str) -> bool:
        """Return False: plain lines have no colours."""
        return False

    def write(self, sequence: str) -> bool:
        """Return False: a dumb terminal takes no sequences."""
        return False

    def redraw(self) -> None:
        """Do nothing: what was printed stands."""

    def clear(self) -> None:
        """Do nothing: a dumb terminal can't be cleared."""

    def touch(self) -> None:
        """Note that the state of the session has changed."""
        self._greeting_due = float("-inf")  # the session is open and has printed its notices
        self._ask_when_quiet()

    async def _show(self, events: AsyncIterator[list[TaskEvent]]) -> None:
        async for batch in events:
            self._turn_due = float("-inf")
            blocks = focus(self.state, self._facts())
            for event in batch:
                blocks += fold(self.state, event)
            self.print(*(block for block in blocks if not _is_on_screen(block, self._typed)))
            self._mark()
            self._ask_when_quiet()

    def _mark(self) -> None:
        """Announce the oldest request as the marked one."""
        now = self._clock()
        for row in self.state.inbox:
            row.drawn_at = row.drawn_at if row.drawn_at is not None else now
            row.folded = 0  # plain lines are never folded
        row = self.state.marked_row()
        if row is not None and row.marked_at is None:
            row.marked_at = now
            self._say(_announce(row))

    def _say(self, text: str) -> None:
        """Write whole lines."""
        self._output.say(text)
        self._ask_when_quiet()

    def _ask_when_quiet(self) -> None:
        due = max(self._turn_due, self._greeting_due) - self._clock()
        self._quiet.start(self._loop, max(PROMPT_AFTER_S, due))

    def _ask(self) -> None:
        """Write the prompt if it is the user's turn and the prompt is not there."""
        blocks = focus(self.state, self._facts())
        if blocks:
            self.print(*blocks)
        elif self._is_persons_turn():
            self._output.ask(clean(self._input.unfinished))

    def _is_persons_turn(self) -> bool:
        if self.state.inbox or any(row.kind == "question" for row in self.state.facts.queue):
            return True
        return not self._something_runs()

    def _something_runs(self) -> bool:
        task = self.state.tasks.get(self.state.focus)
        return bool(self.state.facts.own) or (task is not None and task.is_running)

    def _source_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)

    def _enter(self, text: str, pasted: bool) -> None:
        self._output.note_new_line()
        if text.endswith("\\") and not pasted:
            self._continued_lines.append(text[:-1])
            return
        text = "\n".join((*self._continued_lines, text))
        self._continued_lines.clear()
        now = self._clock()
        # Over a slow connection the end of a paste may come late: a line that follows this fast belongs to
        # it.
        pasted = pasted or now - self._entered_at < SEEN_BEFORE_S
        self._entered_at = now
        if self._is_for_draft(text, pasted=pasted):
            self._keep_draft(text)
        elif self._draft and not self._is_beside_draft(text):
            self._send_draft(text)
        else:
            self._line(text, pasted=pasted)
        self._ask_when_quiet()

    def _is_for_draft(self, text: str, *, pasted: bool) -> bool:
        """Tell whether a text waits for one more Enter: it was pasted and is not a command or an answer
        (pasted ones of those are refused or carried out)."""
        if not pasted or (self.state.inbox and letters_only(text)):
            return False
        return bool(self._draft) or not (text.startswith("/") or not text.strip())

    def _keep_draft(self, text: str) -> None:
        self._draft.append(text)
        draft = "\n".join(self._draft)
        runs = draft.lstrip().startswith("!")
        advice = "Enter runs it in your shell" if runs else "Enter sends it"
        count = format_count(draft.count("\n") + 1, "line")
        self._say(f"Pasted, {count}: {advice}, Ctrl+C drops it.\n")

    def _is_beside_draft(self, text: str) -> bool:
        """Tell whether a typed line is carried out while the draft waits: a command or an answer."""
        return text.startswith("/") or (bool(self.state.inbox) and letters_only(text) and text.strip() != "")

    def _send_draft(self, text: str) -> None:
        """Send the pasted text with the line typed after it."""
        lines, self._draft = [*self._draft, *([text] if text.strip() else [])], []
        line = parse_line("\n".join(lines), typed=False)
        if isinstance(line, (Prompt, NewTask, ToTask)):
            self._typed = [*self._typed[-9:], line.text]
        if isinstance(line, Prompt):
            self._turn_due = self._clock() + TURN_WITHIN_S
        if line is not None:
            self._act(line)

    def _line(self, text: str, *, pasted: bool) -> None:
        # The terminal delivers whole lines without saying when typing began, so the arrival counts: a request
        # must be on the screen that long before Enter.
        now = self._clock()
        line_text = text.split("\n")[0] if letters_only(text) else text
        typed = TypedLine(line_text, pasted, now, now + 1.0)
        asks = any(row.kind == "question" for row in self.state.facts.queue)
        waiting = Waiting(self.state.inbox, question=asks)
        doubted, self._doubted_letter = self._doubted_letter, ""
        match answer_of(typed, waiting) or refusal_of(typed, waiting):
            case "too soon" | "pasted" | "no rule" | "folded" | "which" as why:
                self._say(refusal(why, typed, waiting) + "\n")
            case ApprovalAnswer() as answer:
                self._act(answer)
            case None if text.strip() == "?":
                self.print(PlainText(LINE_HELP))
            case None if (why := doubt_of(text, waiting)) and text.strip() != doubted:
                self._doubted_letter = text.strip()
                self._say(why.replace("Enter again", "The same line again") + "\n")
            case None:
                line = parse_line(text, typed=not pasted)
                if isinstance(line, Slash) and pasted and answers(line.line):
                    self._say(refusal("pasted", typed, waiting) + "\n")
                    return
                if isinstance(line, (Prompt, NewTask, ToTask)):
                    self._typed = [*self._typed[-9:], line.text]
                if isinstance(line, Prompt):
                    self._turn_due = now + TURN_WITHIN_S
                if line is not None:
                    self._act(line)

    def _interrupt(self) -> None:
        """Handle Ctrl+C. The terminal has echoed it and dropped the typed line."""
        now = self._clock()
        self._output.at_prompt = True
        self._input.forget()
        self._continued_lines.clear()
        if self._draft:
            self._draft.clear()
            self._say("dropped the pasted text\n")
            return
        if self._something_runs() or self._facts().coming:
            self._output.leave_prompt()
            self._act(Cancel())
        elif now - self._interrupted_at < TWICE_S:
            self.end("left")
        else:
            self._interrupted_at = now
            running = self.state.running_names()
            self._say(
                (ask_before_leaving(running, "Ctrl+C", TWICE_S) if running else "Ctrl+C again exits") + "\n"
            )

    def _end_of_input(self) -> None:
        """Handle Ctrl+D. A terminal continues after it; other input ends again at once."""
        self._leave("Ctrl+D")

    def _leave(self, key: str) -> None:
        running = self.state.running_names()
        ends = ask_before_leaving(running, key) + "\n" if running else ""
        question = ends + (NOT_SENT if self._unsent() else "")
        if not question or self._clock() - self._left_at < CONFIRM_S:
            self.end("left")
            return
        self._left_at = self._clock()
        self._say(question)

    def _unsent(self) -> str:
        """Return typed text that was not entered."""
        return "\n".join([*self._draft, *self._continued_lines, *filter(None, [self._input.unfinished])])

    def _continue(self) -> None:
        """Handle SIGCONT: the shell has written below the prompt."""
        self._output.note_new_line()
        self._ask_when_quiet()


def _is_on_screen(block: Block, typed: list[str]) -> bool:
    """Tell whether the terminal already shows a prompt because it was typed there; if so, remove it from
    `typed`."""
    if not isinstance(block, UserPrompt) or block.origin != "prompt":
        return False
    match = next((text for text in typed if block.text.startswith(text)), None)
    if match is not None:
        typed.remove(match)
    return match is not None


def _announce(row: InboxRow) -> str:
    """Describe a waiting request and its answers; the request itself was printed in full on arrival."""
    covered = "" if row.rule == row.session else f": {visible(row.session)}"
    session = f", a = this session{covered}" if row.session else ""
    rule = f", p = always: {visible(row.rule)}" if row.rule else ""
    request = f"{row.name}, {row.risk}: {visible(row.title)}"
    keys = f"y = yes{session}{rule}, n = no (n WORDS says why)"
    other = f"another line goes to task {row.task_id} and withdraws this"
    return f"[waiting for you] {request}\n{keys}; {other}\n"
