"""The REPL of a dumb terminal: plain lines in, plain lines out, no live region."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable

from buddy.agent.events import TaskEvent
from buddy.agent.formatting import format_count
from buddy.repl.exit import CONFIRM_S, TWICE_S, Ending, interrupts_held, leaving_ends, signals_end
from buddy.repl.input.approval_line import (
    NOTHING_WAITS,
    SEEN_BEFORE_S,
    TypedLine,
    Waiting,
    answer_of,
    answers,
    is_letter,
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
    PlainText,
    UserPrompt,
    gap_before,
)
from buddy.repl.view.state import InboxRow, SessionFacts, ViewState
from buddy.repl.view.view import focus, fold
from buddy.safety.sanitise import clean, visible

READ_BYTES = 65536
GATHER_S = 0.03
"""Lines that follow each other within this time came in one piece."""


class LineInput:
    """Reads a descriptor. `entered` takes a text and whether it was pasted: several lines are one text,
    unless each of them is a command. `ended` is called for each end of the input; a terminal goes on after
    one (Ctrl+D)."""

    def __init__(
        self, fd: int, encoding: str, entered: Callable[[str, bool], None], ended: Callable[[], None]
    ) -> None:
        self._fd = fd
        self._encoding = encoding
        self._entered = entered
        self._ended = ended
        self._partial = b""
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to read."""
        self._loop = loop
        loop.add_reader(self._fd, self._read)

    def close(self) -> None:
        """Read no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None:
            self._loop.remove_reader(self._fd)

    @property
    def unfinished(self) -> str:
        """Input without a line end so far; Ctrl+D submits it."""
        return self._partial.decode(self._encoding, "replace")

    def forget(self) -> None:
        """An interrupt: what was begun is dropped, as the terminal does with its own part of it."""
        self._partial = b""
        self._lines.clear()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self._hand_over()
            self._ended()
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
                self._entered(line, True)
        elif lines:
            self._entered("\n".join(lines), pasted)


class LineOutput:
    """Writes blocks and the prompt. `on_gone`: the terminal or the pipe takes nothing any more."""

    def __init__(self, fd: int, encoding: str, look: Look, on_gone: Callable[[], None]) -> None:
        self._fd = fd
        self._encoding = encoding
        self._terminal = TerminalWriter(fd, on_gone)
        self._prompt = look.glyphs.prompt + " "
        self._before: Block | None = None
        self.paint = LazyPainter(look)
        self.at_prompt = False

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on a terminal that was stopped (Ctrl+S) holds up nothing but what is written to it."""
        self._terminal.attach(loop, lambda: None)

    def close(self) -> None:
        """Write what is left, then nothing more."""
        self.leave_prompt()
        self._terminal.close()

    @property
    def columns(self) -> int:
        """Width of the terminal."""
        return terminal_size(self._fd).columns

    def blocks(self, *blocks: Block) -> bool:
        """Write blocks; whether there was something to see."""
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

    def ask(self, begun: str = "") -> None:
        """Write the prompt, if it does not stand there, and what was handed over of the line behind it."""
        if not self.at_prompt:
            self.at_prompt = True
            self._write(self._prompt + begun)

    def leave_prompt(self) -> None:
        """End the line the prompt stands in."""
        if self.at_prompt:
            self.at_prompt = False
            self._write("\n")

    def line_ended(self) -> None:
        """The terminal itself has gone to a new line: something was entered, or another program wrote."""
        self.at_prompt = False
        self._before = None

    def _write(self, text: str) -> None:
        self._terminal.write(encode(text, self._encoding))


PROMPT_AFTER_S = 0.12
"""The prompt waits for so much quiet: what a command prints comes before it, in one piece."""

TURN_WITHIN_S = 5.0
"""So long the turn of a prompt that was sent is waited for: at the start no session is open yet."""

LINE_HELP = """\
Enter     send; while the task runs: steer it
text \\    the line goes on after Enter
text &    new background task
@3 text   to task 3; @3? asks on the side
/ ! !!    command, shell, private shell
y a p n   answer the announced request: yes, this session, always, no
Ctrl+C    cancel; twice when idle: exit
Ctrl+D    exit
/help     lists the commands; /more shows folded output in full"""


NOT_SENT = "not sent: Enter sends it, Ctrl+D again exits\n"


class LineRepl:
    """Reads lines from one descriptor, writes blocks to another."""

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
        greeted_within_s: float = 0,
    ) -> None:
        """`greeted_within_s`: the first prompt waits so long for what the session has to say when it opens:
        `touch` follows that."""
        self.state = ViewState()
        self.state.facts = facts()
        self._input = LineInput(stdin, encoding, self._entered, self._input_ended)
        self._output = LineOutput(stdout, encoding, look, lambda: self.end("gone"))
        self._facts = facts
        self._act = act
        self._clock = clock
        self._ended: asyncio.Future[Ending] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._quiet = Countdown(self._ask)
        self._begun: list[str] = []
        self._typed: list[str] = []
        self._draft: list[str] = []
        self._doubted = ""
        self._greeted_within_s, self._greeting_due = greeted_within_s, float("-inf")
        self._turn_due = self._interrupted_at = self._left_at = self._entered_at = float("-inf")

    async def run(self, events: AsyncIterator[list[TaskEvent]]) -> Ending:
        """Until the person leaves or `end` is called."""
        loop = self._loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        self._input.attach(loop)
        self._output.attach(loop)
        show = loop.create_task(self._show(events))
        show.add_done_callback(self._source_ended)
        interrupts = interrupts_held(lambda: loop.call_soon_threadsafe(self._interrupted))
        try:
            with interrupts, signals_end(loop, self.end, None, self._continued):
                self._greeting_due = self._clock() + self._greeted_within_s
                (self._ask_when_quiet if self._greeted_within_s else self._ask)()
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
        """Leave, as `/quit` asks for: the first time while something runs, say what would end."""
        self._leave("/quit")

    def print(self, *blocks: Block) -> None:
        """Print blocks; the prompt follows when it is quiet."""
        blocks = tuple(block for block in blocks if not isinstance(block, CommandEcho))  # it was typed here
        if self._output.blocks(*blocks):
            self._turn_due = float("-inf")
            self._ask_when_quiet()

    def expand(self) -> bool:
        """Print the last folded block in full; whether there is one."""
        block = self._output.paint.expand_last(self.state.folded, self._output.columns)
        if block is not None:
            self.print(block)
        return block is not None

    def touch(self) -> None:
        """Note that the state of the session has changed."""
        self._greeting_due = float("-inf")  # it is open, and has said what there is to say
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
        """The oldest request is the marked one as soon as it is announced as such."""
        now = self._clock()
        for row in self.state.inbox:
            row.drawn_at = row.drawn_at if row.drawn_at is not None else now
            row.folded = 0  # plain lines show all of it
        row = self.state.marked()
        if row is not None and row.marked_at is None:
            row.marked_at = now
            self._say(_announced(row))

    def _say(self, text: str) -> None:
        """Write whole lines."""
        self._output.say(text)
        self._ask_when_quiet()

    def _ask_when_quiet(self) -> None:
        due = max(self._turn_due, self._greeting_due) - self._clock()
        self._quiet.start(self._loop, max(PROMPT_AFTER_S, due))

    def _ask(self) -> None:
        """Write the prompt, if it is the person's turn and it does not stand there."""
        brought = focus(self.state, self._facts())
        if brought:
            self.print(*brought)
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

    def _entered(self, text: str, pasted: bool) -> None:
        self._output.line_ended()
        if text.endswith("\\") and not pasted:
            self._begun.append(text[:-1])
            return
        text = "\n".join((*self._begun, text))
        self._begun.clear()
        now = self._clock()
        # The end of a paste may come late over a slow connection: what follows a line that fast is part of
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
        """Tell whether a text waits for one more Enter: it was pasted, and it is not a command or an answer
        (these are refused or carried out even when pasted together with others)."""
        if not pasted or (self.state.inbox and letters_only(text)):
            return False
        return bool(self._draft) or not (text.startswith("/") or not text.strip())

    def _keep_draft(self, text: str) -> None:
        self._draft.append(text)
        draft = "\n".join(self._draft)
        runs = draft.lstrip().startswith("!")
        what = "Enter runs it in your shell" if runs else "Enter sends it"
        count = format_count(draft.count("\n") + 1, "line")
        self._say(f"Pasted, {count}: {what}, Ctrl+C drops it.\n")

    def _is_beside_draft(self, text: str) -> bool:
        """Tell whether a typed line is carried out while the draft waits: a command or an answer."""
        return text.startswith("/") or (bool(self.state.inbox) and letters_only(text) and text.strip() != "")

    def _send_draft(self, text: str) -> None:
        """Send what was pasted, with the line that was typed behind it."""
        lines, self._draft = [*self._draft, *([text] if text.strip() else [])], []
        line = parse_line("\n".join(lines), typed=False)
        if isinstance(line, (Prompt, NewTask, ToTask)):
            self._typed = [*self._typed[-9:], line.text]
        if isinstance(line, Prompt):
            self._turn_due = self._clock() + TURN_WITHIN_S
        if line is not None:
            self._act(line)

    def _line(self, text: str, *, pasted: bool) -> None:
        # The terminal hands over whole lines: nobody knows when one was begun. Its arrival is taken, so a
        # request has to be on the screen that long before Enter.
        now = self._clock()
        given = text.split("\n")[0] if letters_only(text) else text
        typed = TypedLine(given, pasted, now, now + 1.0)
        asks = any(row.kind == "question" for row in self.state.facts.queue)
        waiting = Waiting(self.state.inbox, question=asks)
        doubted, self._doubted = self._doubted, ""
        match answer_of(typed, waiting) or refusal_of(typed, waiting):
            case "too soon" | "pasted" | "no rule" | "folded" | "which" as why:
                self._say(refusal(why, typed, waiting) + "\n")
            case ApprovalAnswer() as answer:
                self._act(answer)
            case None if text.strip() == "?":
                self.print(PlainText(LINE_HELP))
            case None if is_letter(text) and not (waiting.rows or asks) and text.strip() != doubted:
                self._doubted = text.strip()
                self._say(
                    NOTHING_WAITS.format(self._doubted).replace("Enter again", "The same line again") + "\n"
                )
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

    def _interrupted(self) -> None:
        """Ctrl+C. The terminal has shown it, and dropped what was being typed."""
        now = self._clock()
        self._output.at_prompt = True
        self._input.forget()
        self._begun.clear()
        if self._draft:
            self._draft.clear()
            self._say("dropped what was pasted\n")
            return
        if self._something_runs() or self._facts().coming:
            self._output.leave_prompt()
            self._act(Cancel())
        elif now - self._interrupted_at < TWICE_S:
            self.end("left")
        else:
            self._interrupted_at = now
            running = self.state.running_names()
            self._say((leaving_ends(running, "Ctrl+C") if running else "Ctrl+C again exits") + "\n")

    def _input_ended(self) -> None:
        """Ctrl+D on a terminal, which goes on after it; elsewhere the end comes again at once."""
        self._leave("Ctrl+D")

    def _leave(self, key: str) -> None:
        running = self.state.running_names()
        ends = leaving_ends(running, key) + "\n" if running else ""
        said = ends + (NOT_SENT if self._unsent() else "")
        if not said or self._clock() - self._left_at < CONFIRM_S:
            self.end("left")
            return
        self._left_at = self._clock()
        self._say(said)

    def _unsent(self) -> str:
        """Return the text that was typed and not entered."""
        return "\n".join([*self._draft, *self._begun, *filter(None, [self._input.unfinished])])

    def _continued(self) -> None:
        """After a stop the shell has written below the prompt."""
        self._output.line_ended()
        self._ask_when_quiet()


def _is_on_screen(block: Block, typed: list[str]) -> bool:
    """Tell whether the terminal already shows a prompt because it was typed there; remove it from `typed`
    then."""
    if not isinstance(block, UserPrompt) or block.origin != "prompt":
        return False
    shown = next((text for text in typed if block.text.startswith(text)), None)
    if shown is not None:
        typed.remove(shown)
    return shown is not None


def _announced(row: InboxRow) -> str:
    """Describe a waiting request and the answers to it; the request itself was printed in full when it
    arrived."""
    covered = "" if row.rule == row.session else f": {visible(row.session)}"
    session = f", a = this session{covered}" if row.session else ""
    rule = f", p = always: {visible(row.rule)}" if row.rule else ""
    what = f"{row.name}, {row.risk}: {visible(row.title)}"
    keys = f"y = yes{session}{rule}, n = no (n WORDS says why)"
    other = f"another line goes to task {row.task_id} and withdraws this"
    return f"[waiting for you] {what}\n{keys}; {other}\n"
