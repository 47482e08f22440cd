"""The key table on a running REPL: every key does what the table says."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from buddy.agent.display import Command
from buddy.repl.input.keys import ESCAPE_S, FAR_ESCAPE_S, escape_s
from buddy.repl.intents import (
    ApprovalAnswer,
    Cancel,
    DropNote,
    NewTask,
    NextMode,
    Prompt,
    Queue,
    RecallQueued,
    Rewind,
    Slash,
    TaskPanel,
    ToBackground,
)
from buddy.repl.view.state import NO_SESSION, OwnRow, QueueRow, SessionFacts
from buddy.workspace.sandbox.status import NO_SANDBOX
from tests.support.events_for_tests import Tape
from tests.support.screen_harness import Stage, running_repl


async def running_turn(stage: Stage) -> Tape:
    tape = Tape(at=None)
    stage.send(tape.turn(), tape.reply())
    await stage.shows("waiting for the model")
    return tape


async def asking_turn(stage: Stage) -> None:
    """A turn that waits for the person's answer."""
    tape = await running_turn(stage)
    stage.send(tape.tool(), tape.asked())
    await stage.shows("y yes")
    await stage.seen()


async def cancels_from_normal_mode(stage: Stage) -> None:
    """The last keys left `bc` and cancelled nothing; now Esc cancels."""
    await stage.until(lambda: stage.repl.editor.text == "bc")
    assert stage.intents == []
    stage.type("\x1b")
    await stage.until(lambda: stage.intents == [Cancel()])


@pytest.mark.parametrize("keys", ["\x1b\r", "\n", "\\\r", "\x1b[13;2u", "\x1b[27;2;13~"])
async def test_newlines_are_typed_in_five_ways(keys: str) -> None:
    async with running_repl() as stage:
        stage.type("one" + keys + "two")
        await stage.until(lambda: stage.repl.editor.text == "one\ntwo")
        await stage.shows("  two")
        stage.type("\r")
        await stage.until(lambda: stage.intents == [Prompt("one\ntwo")])


async def test_alt_enter_does_not_cancel_a_running_turn() -> None:
    async with running_repl() as stage:
        await running_turn(stage)
        stage.type("one\x1b\rtwo")
        await stage.until(lambda: stage.repl.editor.text == "one\ntwo")
        assert stage.intents == []


async def test_esc_cancels_the_running_turn_and_keeps_what_is_typed() -> None:
    async with running_repl() as stage:
        await running_turn(stage)
        stage.type("draft")
        await stage.shows("draft")
        stage.type("\x1b")
        await stage.until(lambda: stage.intents == [Cancel()])
        assert stage.repl.editor.text == "draft"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm"}, ESCAPE_S),
        ({"SSH_CONNECTION": ""}, ESCAPE_S),
        ({"SSH_CONNECTION": "192.0.2.1 50000 192.0.2.2 22"}, FAR_ESCAPE_S),
        ({"SSH_CLIENT": "192.0.2.1 50000 22"}, FAR_ESCAPE_S),
        ({"SSH_TTY": "/dev/pts/1"}, FAR_ESCAPE_S),
    ],
)
def test_the_rest_of_a_sequence_is_waited_for_longer_where_keys_come_over_a_network(
    environ: dict[str, str], expected: float
) -> None:
    assert escape_s(environ) == expected


async def test_an_arrow_key_that_arrives_in_pieces_over_ssh_does_not_cancel_the_turn() -> None:
    """A try in which this machine itself paused for longer than the piece may take says nothing."""
    loop = asyncio.get_running_loop()
    for _ in range(20):
        async with running_repl(environ={"SSH_CONNECTION": "192.0.2.1 50000 192.0.2.2 22"}) as stage:
            await running_turn(stage)
            stage.type("ac")
            await stage.shows("ac")
            sent = loop.time()
            stage.type("\x1b")
            await asyncio.sleep(ESCAPE_S * 3)
            stage.type("[D")
            in_time = loop.time() - sent < FAR_ESCAPE_S
            stage.type("b")
            await stage.until(lambda: "b" in stage.repl.editor.text)
            if in_time:
                assert (stage.repl.editor.text, stage.intents) == ("abc", [])
                return
    raise AssertionError("the machine is too busy to type in time")


async def test_esc_twice_on_an_empty_idle_line_offers_to_rewind() -> None:
    """Pressed again as long as this machine paused between the two, as a person would."""
    async with running_repl() as stage:
        for _ in range(20):
            stage.type("\x1b\x1b")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await stage.until(lambda: bool(stage.intents))
                    break
        assert stage.intents[:1] == [Rewind()]


async def test_ctrl_c_clears_then_cancels_then_exits() -> None:
    async with running_repl(clock=lambda: 100.0) as stage:  # the second one comes soon enough for leaving
        tape = await running_turn(stage)
        stage.type("draft")
        await stage.shows("draft")
        stage.type("\x03")
        await stage.until(lambda: stage.repl.editor.text == "")
        stage.type("\x03")
        await stage.until(lambda: stage.intents == [Cancel()])
        stage.send(tape.done("cancelled"))
        await stage.shows("cancelled")
        stage.type("\x03")
        await stage.shows("Ctrl+C again exits")
        stage.type("\x03")
        assert await stage.ended == "left"


async def test_REL_055_ctrl_d_asks_while_tasks_run() -> None:
    async with running_repl(clock=lambda: 100.0) as stage:
        stage.facts = replace(NO_SESSION, names={1: "fix the bug"})
        await running_turn(stage)
        stage.type("\x04")
        await stage.shows("Task 1 (fix the bug) is running. Ctrl+D again within 10 s")
        assert not stage.ended.done()
        stage.type("\x04")
        assert await stage.ended == "left"


async def test_ctrl_c_names_the_background_task_that_leaving_ends() -> None:
    async with running_repl() as stage:
        stage.facts = replace(NO_SESSION, names={2: "write tests"})
        tape = Tape(task_id=2)
        stage.send(tape.turn("write tests"), tape.reply())
        await stage.until(lambda: bool(stage.repl.state.running()))
        stage.type("\x03")
        await stage.shows("Task 2 (write tests) is running. Ctrl+C again")


@pytest.mark.parametrize("second", ["/quit", "Ctrl+D"])
async def test_quit_asks_once_while_a_job_or_a_command_runs(second: str) -> None:
    async with running_repl() as stage:
        stage.facts = replace(NO_SESSION, jobs=("job 1 (npm run dev)",), own=(OwnRow("! make", 1.0, ""),))
        stage.repl.screen.touch()
        await stage.until(lambda: stage.repl.state.facts == stage.facts)
        stage.repl.leave()
        await stage.shows("Job 1 (npm run dev) and ! make are running. /quit again")
        assert not stage.ended.done()
        if second == "/quit":
            stage.repl.leave()
        else:
            stage.type("\x04")
        assert await stage.ended == "left"


async def test_quit_leaves_at_once_where_nothing_runs() -> None:
    async with running_repl() as stage:
        stage.repl.leave()
        assert await stage.ended == "left"


async def test_ctrl_d_exits_when_idle_and_deletes_in_a_line() -> None:
    async with running_repl() as stage:
        stage.type("ab\x01\x04")
        await stage.until(lambda: stage.repl.editor.text == "b")
        stage.type("\x03\x04")
        assert await stage.ended == "left"


async def test_keys_that_are_intents() -> None:
    async with running_repl() as stage:
        await running_turn(stage)
        stage.type("\x1b[1;3A\x02\x18\x02\x14\x1b[Z")
        expected = [RecallQueued(), ToBackground(), ToBackground(), TaskPanel(), NextMode()]
        await stage.until(lambda: stage.intents == expected)
        stage.type("then this\t")
        await stage.until(lambda: stage.intents[5:] == [Queue("then this")])
        stage.type("ab\x02X")
        await stage.until(lambda: stage.repl.editor.text == "aXb")


async def test_backspace_on_an_empty_line_drops_the_note() -> None:
    async with running_repl() as stage:
        stage.facts = SessionFacts(
            1, "ask", "", NO_SANDBOX, (QueueRow("note", 2, "task 2's answer"),), {1: "", 2: ""}
        )
        stage.repl.screen.touch()
        await stage.shows("goes with your next prompt: task 2'… (Backspace drops it)")
        stage.type("\x7f")
        await stage.until(lambda: stage.intents == [DropNote()])


async def test_a_new_task_is_announced_while_it_is_typed() -> None:
    async with running_repl() as stage:
        stage.type("write tests &")
        await stage.shows("→ new task")
        stage.type("\r")
        await stage.until(lambda: stage.intents == [NewTask("write tests")])


async def test_a_question_mark_shows_the_keys() -> None:
    async with running_repl(columns=110, rows=24) as stage:
        stage.type("?")
        await stage.shows("next permission mode")
        stage.type("x")
        await stage.shows_not("next permission mode")


async def test_long_pastes_are_folded_until_they_are_sent() -> None:
    async with running_repl() as stage:
        pasted = "\n".join(f"line {n}" for n in range(842))
        stage.type(f"look: \x1b[200~{pasted}\x1b[201~")
        await stage.shows("look: [pasted #1, 842 lines]")
        stage.type(" ok\r")
        await stage.until(lambda: stage.intents == [Prompt(f"look: {pasted} ok")])


async def test_a_folded_paste_can_be_opened_and_a_short_one_is_not_folded() -> None:
    async with running_repl() as stage:
        stage.type("\x1b[200~" + "x" * 5000 + "\x1b[201~")
        await stage.shows("[pasted #1, 5000 characters]")
        stage.type("\x0f")
        await stage.until(lambda: stage.repl.editor.text == "x" * 5000)
        stage.type("\x03\x1b[200~a\r\nb\x1b[31m\x1b[201~")
        await stage.until(lambda: stage.repl.editor.text == "a\nb")
        assert stage.intents == []


async def test_SEC_040_a_paste_with_a_line_end_sends_and_answers_nothing() -> None:
    async with running_repl() as stage:
        await asking_turn(stage)
        stage.type("\x1b[200~y\n\x1b[201~")
        await stage.until(lambda: stage.repl.editor.text == "y\n")
        await asyncio.sleep(0.35)
        stage.type("\r")
        await stage.shows("pasted text never answers")
        assert stage.intents == []


async def test_SEC_039_a_typed_letter_answers_only_a_request_that_was_seen() -> None:
    now = [100.0]

    async def typed_letter() -> None:
        stage.type("y")
        await stage.until(lambda: stage.repl.editor.text == "y")
        now[0] += 0.02  # no paste
        stage.type("\r")

    async with running_repl(clock=lambda: now[0]) as stage:
        await asking_turn(stage)
        await typed_letter()
        await stage.shows("came while you typed")
        now[0] += 0.35
        await typed_letter()
        await stage.until(lambda: stage.intents == [ApprovalAnswer("q1", "dq1", "once")])
        assert stage.repl.editor.text == ""
        await stage.until(lambda: not any("not answered" in row for row in stage.terminal.rows()))


async def test_SEC_039_a_command_says_yes_only_to_requests_that_were_seen() -> None:
    now = [100.0]

    async def typed_line(text: str) -> None:
        stage.type(text)
        await stage.until(lambda: stage.repl.editor.text == text)
        now[0] += 0.02  # no paste
        stage.type("\r")

    async with running_repl(clock=lambda: now[0]) as stage:
        await asking_turn(stage)
        for line in ("/ok", "/ok all"):
            await typed_line(line)
            await stage.shows("came while you typed")
            await typed_line("")
        stage.type("\x1b[200~/ok 1\x1b[201~")
        await stage.until(lambda: stage.repl.editor.text == "/ok 1")
        now[0] += 0.35
        stage.type("\r")
        await stage.shows("pasted text never answers")
        assert stage.intents == []
        await typed_line("/ok all")
        await stage.until(lambda: stage.intents == [Slash("/ok all")])
        await typed_line("/ok")
        await stage.until(lambda: stage.intents[1:] == [ApprovalAnswer("q1", "dq1", "once")])


async def test_a_request_never_takes_a_key_from_the_line() -> None:
    async with running_repl() as stage:
        tape = await running_turn(stage)
        stage.type("half a sen")
        await stage.shows("half a sen")
        stage.send(tape.tool(), tape.asked())
        await stage.shows("y yes")
        stage.type("tence y")
        await stage.shows("❯ half a sentence y")
        stage.type("\r")
        await stage.until(lambda: stage.intents == [Prompt("half a sentence y")])


async def test_ctrl_o_expands_the_last_folded_output() -> None:
    async with running_repl(rows=40) as stage:
        tape = await running_turn(stage)
        output = "\n".join(f"row {n}" for n in range(20))
        stage.send(tape.tool(), tape.tool_done(display=Command("x", output, 0, "", 2.0)))
        stage.send(tape.tool("c2"), tape.tool_done("c2", display=Command("x", "short", 0, "", 2.0)))
        await stage.shows("… 14 more lines (Ctrl+O)")
        await stage.shows_not("row 9")
        stage.type("\x0f")
        await stage.shows("│ row 9")
        stage.type("\x0f")
        await stage.shows("nothing is folded")


class Words(Completer):
    """Completes two commands."""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for word in ("/help", "/history"):
            if word.startswith(document.text):
                yield Completion(word, -len(document.text))


async def test_tab_completes_and_enter_sends_the_completed_command() -> None:
    async with running_repl(completer=Words()) as stage:
        stage.type("/h")
        await stage.shows("/history")
        stage.type("\t")
        await stage.until(lambda: stage.repl.editor.text == "/help")
        stage.type("\t")
        await stage.until(lambda: stage.repl.editor.text == "/history")
        stage.type("\x1b[Z")
        await stage.until(lambda: stage.repl.editor.text == "/help")
        stage.type("\r")
        await stage.until(lambda: [str(intent) for intent in stage.intents] == ["Slash(line='/help')"])


async def test_esc_closes_the_menu_before_it_cancels() -> None:
    async with running_repl(completer=Words()) as stage:
        stage.type("/h")
        await stage.shows("/history")
        stage.type("\x1b")
        await stage.shows_not("/history")
        assert stage.repl.editor.text == "/h"


async def test_history_is_private_searchable_and_survives(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history"
    async with running_repl(history_path=str(path)) as stage:
        stage.type("first thing\x1b\rsecond line\r")
        await stage.until(lambda: len(stage.intents) == 1)
        await stage.line(" secret")
        await stage.until(lambda: len(stage.intents) == 2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "secret" not in path.read_text()
    async with running_repl(history_path=str(path)) as stage:
        stage.type("\x1b[A")
        await stage.until(lambda: stage.repl.editor.text == "first thing\nsecond line")
        stage.type("\x03\x12thing")
        await stage.shows("I-search")
        stage.type("\r")
        await stage.until(lambda: stage.repl.editor.text == "first thing\nsecond line")


async def test_a_history_that_cannot_be_written_is_only_logged(tmp_path: Path) -> None:
    async with running_repl(history_path=str(tmp_path)) as stage:
        await stage.line("hello")
        await stage.until(lambda: stage.intents == [Prompt("hello")])
        assert "input history was not written" in stage.log[0]


async def test_vi_mode_leaves_insert_mode_before_it_cancels() -> None:
    async with running_repl(vi=True) as stage:
        await running_turn(stage)
        stage.type("abc\x1b")
        await asyncio.sleep(0.3)
        stage.type("0x")
        await cancels_from_normal_mode(stage)


@pytest.mark.parametrize("keys", ["R", "v", "d"])
async def test_in_vi_mode_esc_leaves_what_was_begun_before_it_cancels(keys: str) -> None:
    async with running_repl(vi=True) as stage:
        await running_turn(stage)
        stage.type("abc\x1b")
        await stage.shows("NORMAL")
        stage.type(f"0{keys}")
        await stage.until(lambda: stage.repl.editor.buffer.cursor_position == 0)
        await asyncio.sleep(0.3)
        stage.type("\x1b")
        await asyncio.sleep(0.3)
        stage.type("x")
        await cancels_from_normal_mode(stage)


async def test_the_line_goes_through_the_persons_editor(tmp_path: Path) -> None:
    script = tmp_path / "ed"
    script.write_text('#!/bin/sh\nprintf "%s, edited\\n" "$(cat "$1")" > "$1.new"; mv "$1.new" "$1"\n')
    script.chmod(0o755)
    async with running_repl(environ={"VISUAL": str(script)}) as stage:
        stage.type("draft\x07")
        await stage.until(lambda: stage.repl.editor.text == "draft, edited")
        await stage.shows("draft, edited")


EDITORS_THAT_FAIL = {
    "missing": "/nowhere/editor",
    "unclosed quotes": "vi 'a",
    "a code": "sh -c 'exit 3'",
    "the file removed": "sh -c 'rm \"$0\"'",
}


@pytest.mark.parametrize("command", EDITORS_THAT_FAIL.values(), ids=EDITORS_THAT_FAIL)
async def test_an_editor_that_fails_leaves_the_line_alone(command: str) -> None:
    async with running_repl(environ={"EDITOR": command}) as stage:
        stage.type("draft\x07")
        await stage.shows("the editor failed")
        await stage.shows("❯ draft")
        stage.type(" goes on")
        await stage.until(lambda: stage.repl.editor.text == "draft goes on")


async def test_a_cancel_goes_before_what_is_to_be_drawn_and_everything_is_drawn_after_it() -> None:
    async with running_repl() as stage:
        await running_turn(stage)
        assert stage.repl._app.may_draw()
        stage.type("\x1b")
        await stage.until(lambda: stage.intents == [Cancel()])
        assert stage.might_draw == [False]
        stage.type("typed at once")
        await stage.shows("❯ typed at once")


async def test_what_ctrl_c_cleared_is_brought_back_by_undo_until_the_next_line_is_sent() -> None:
    async with running_repl() as stage:
        stage.type("a long draft")
        await stage.until(lambda: stage.repl.editor.text == "a long draft")
        stage.type("\x03")
        await stage.until(lambda: stage.repl.editor.text == "")
        stage.type("\x1f")
        await stage.until(lambda: stage.repl.editor.text == "a long draft")
        stage.type("\x03next")
        await stage.until(lambda: stage.repl.editor.text == "next")
        stage.type("\x1f" * 6)
        await stage.until(lambda: stage.repl.editor.text == "a long draft")
        await asyncio.sleep(0.05)
        stage.type("\r")
        await stage.until(lambda: stage.intents == [Prompt("a long draft")])
        stage.type("\x1f")
        await asyncio.sleep(0.05)
        assert stage.repl.editor.text == ""


async def test_RU_L1_the_editor_sees_no_keys(tmp_path: Path) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "DISPLAY": ":1",
        "OPENAI_API_KEY": "sk-1",
        "GITHUB_TOKEN": "t",
        "DB_PASSWORD": "p",
        "EDITOR": f"sh -c 'env > {tmp_path}/seen'",
    }
    async with running_repl(environ=environ) as stage:
        stage.type("\x07")
        await stage.until(lambda: (tmp_path / "seen").exists() and "PATH=" in (tmp_path / "seen").read_text())
        seen = (tmp_path / "seen").read_text()

    assert "DISPLAY=:1" in seen
    assert not [name for name in ("OPENAI", "GITHUB", "DB_PASS", "sk-1") if name in seen]
