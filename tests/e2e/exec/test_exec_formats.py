"""The output of `buddy exec`: the four formats as golden files, -o, stdin, and which stream is for whom."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from buddy.agent.display import NOTHING
from buddy.agent.events import (
    AgentUiEvent,
    Notice,
    ReplyFinished,
    ReplyTiming,
    TextDelta,
    ToolCallDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from buddy.agent.host import Outcome
from buddy.agent.messages import CANCELLED_TEXT, NO_USAGE, AssistantMessage, Call, Finish, Text, Usage
from buddy.headless.formats import ProgressLines, RunResult, TextFormat, usage_object
from tests.fake_llm.script import HttpError, Reply, Stall, Tokens, call, failure, reply, think
from tests.fake_llm.server import FakeLLM
from tests.support.program import DIRECT, YOLO, Program, check_golden, running

TOOLS = ("read_file", "write_file", "run_shell")
FORMATS = ("text", "json", "stream-json", "sse")


def work() -> list[Reply]:
    """A turn with everything a format has to show: thinking, words beside calls, a failure, a retry."""
    return [
        reply(think("Two files.", signature="SIG"), "I look.", call("read_file", path="a.txt")),
        reply(call("read_file", path="no.txt")),
        failure(503),
        reply(call("write_file", path="b.txt", content="b\n")),
        reply("Done: **b.txt** is there.", usage=Tokens(100, 20, cache_read=50, reasoning=3)),
    ]  # fmt: skip


def program_of(tmp_path: Path, url: str, lane: str = "chat", **more: object) -> Program:
    program = Program(tmp_path, url, lane, TOOLS, **more)
    program.files(a__txt="alpha\n")
    return program


GROWING = tuple(f"event: {kind}_delta\ndata: " for kind in ("content", "thinking"))


def merged(text: str) -> str:
    """Neighbouring deltas as one: how many there are is up to the network."""
    found: list[str] = []
    for block in text.split("\n\n"):
        head = next((one for one in GROWING if block.startswith(one)), "")
        if head and found and found[-1].startswith(head):
            first, more = (json.loads(one.removeprefix(head)) for one in (found[-1], block))
            assert first.keys() == more.keys()
            found[-1] = head + json.dumps({name: first[name] + more[name] for name in first})
        else:
            found.append(block)
    return "\n\n".join(found)


@pytest.mark.parametrize("form", FORMATS)
async def test_each_format_writes_the_run_in_its_own_way(tmp_path: Path, form: str) -> None:
    async with FakeLLM(work()) as server:
        program = program_of(tmp_path, server.url, "anthropic", settings={"api": {"context_limit": 0}})
        ran = await program.run("exec", *YOLO, "--output-format", form, "Write b.txt")
    assert ran.code == 0, ran.err
    assert (program.repo / "b.txt").read_text() == "b\n"
    found = program.normal(f"--- stdout ---\n{ran.out}--- stderr ---\n{ran.err}")
    check_golden(f"formats/{form}.txt", merged(found))


@pytest.mark.parametrize("form", FORMATS)
async def test_RU_5_11_arguments_that_are_no_object_are_kept_whole_in_one(tmp_path: Path, form: str) -> None:
    deep = "[" * 100_000
    async with FakeLLM([reply(call("run_shell", deep)), reply("I see.")]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", "--output-format", form, "hi")
    assert (ran.code, "crashed" in ran.err) == (0, False), ran.err
    if form == "stream-json":
        used = [
            part for one in ran.objects() if one["type"] == "assistant" for part in one["message"]["content"]
        ]
        assert [part["input"] for part in used if part["type"] == "tool_use"] == [{"unparsed": deep}]


async def test_partial_messages_are_streamed_when_asked_for(tmp_path: Path) -> None:
    async with FakeLLM([reply(think("hm"), "one two three", chars=4)]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", "--output-format=stream-json", "--include-partial-messages", "hi")
    parts = [one["event"] for one in ran.objects() if one["type"] == "stream_event"]
    deltas = [part["delta"] for part in parts if part["type"] == "content_block_delta"]
    assert "".join(one.get("text", "") for one in deltas) == "one two three"
    assert "".join(one.get("thinking", "") for one in deltas) == "hm"
    assert [one["type"] for one in ran.objects() if one["type"] != "stream_event"] == [
        "system", "assistant", "result",
    ]  # fmt: skip
    assert len({one["session_id"] for one in ran.objects()}) == 1


@pytest.mark.parametrize("form", ["json", "stream-json", "sse"])
async def test_a_failure_ends_with_a_result_too(tmp_path: Path, form: str) -> None:
    async with FakeLLM([reply("", fault=HttpError(400, body={"error": {"message": "bad thing"}}))]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", "--output-format", form, "hi")
    last = json.loads(ran.out.strip().splitlines()[-1].removeprefix("data: "))
    assert ran.code == 1
    assert (last["type"], last["subtype"], last["is_error"]) == ("result", "error_during_execution", True)
    assert "bad thing" in last["result"]
    assert ran.told()[-1] == last["result"]


async def test_the_answer_goes_to_the_file_of_o(tmp_path: Path) -> None:
    async with FakeLLM([reply("The answer.")]) as server:
        program = program_of(tmp_path, server.url)
        target = program.folder / "answer.md"
        target.write_text("an older and longer answer")
        ran = await program.run("exec", "-o", str(target), "hi")
    assert (ran.code, ran.out, target.read_text()) == (0, "", "The answer.\n")


async def test_a_file_of_o_that_cannot_be_written_is_said_before_the_model_is_asked(tmp_path: Path) -> None:
    async with FakeLLM([reply("The answer.")]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", "-o", "no/such/folder/answer.md", "hi")
    assert ran.code == 2
    assert ran.told() == [f"-o no/such/folder/answer.md: there is no directory {program.repo}/no/such/folder"]
    assert server.requests == []


async def test_stdin_is_appended_to_the_prompt(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok"), reply("ok"), reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        assert (await program.run("exec", "Explain", "this", stdin=b"line 1\nline 2\n")).code == 0
        assert (await program.run("exec", stdin=b"only piped")).code == 0
        assert (await program.run(stdin=b"no subcommand")).code == 0
    assert [one.last_user_text for one in server.requests] == [
        "Explain this\n\n<stdin>\nline 1\nline 2\n</stdin>", "only piped", "no subcommand",
    ]  # fmt: skip


async def test_stdin_that_is_not_utf_8_is_taken_with_replacements(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", "Explain", stdin=b"gr\xfc\xdfe \xff\x00 \xe2\x82")
    assert (ran.code, ran.out) == (0, "ok\n")
    assert (
        server.requests[0].last_user_text == "Explain\n\n<stdin>\ngr\ufffd\ufffde \ufffd\x00 \ufffd\n</stdin>"
    )


async def test_too_long_a_stdin_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", "Explain", stdin=b"x" * 1_000_001)
    assert ran.code == 2
    assert ran.told() == ["stdin is longer than 1,000,000 characters; save it to a file and name that file"]
    assert (server.requests, program.sessions()) == ([], [])


async def test_a_mentioned_file_goes_along(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", "What is in @a.txt?")
    assert ran.code == 0
    assert "[attached: a.txt]" in server.requests[0].last_user_text
    assert "alpha" in server.requests[0].last_user_text


HOSTILE = "red \x1b[31mtext\x1b]52;c;aGk=\x07 end"
EXACT = (
    "all:\n\tcc -o a a.c"
    + "\n" * 7
    + "\u0645\u06cc\u200c\u062e\u0648 \U0001f469\u200d\U0001f4bb 1\ufe0f\u20e3  \n"
)


def _written(form: TextFormat, *events: AgentUiEvent) -> None:
    for event in events:
        form.event(event)


def _reply(text: str, *parts: Call, finish: Finish = "stop") -> ReplyFinished:
    message = AssistantMessage("r", (Text(text), *parts), "m", "chat", finish, NO_USAGE)
    return ReplyFinished(message, ReplyTiming(0, 0))


def test_text_of_a_model_reaches_a_terminal_without_its_escapes() -> None:
    out: list[str] = []
    form = TextFormat(out.append, out.append, is_terminal=True)
    _written(form, *[TextDelta("r", 0, sign) for sign in HOSTILE], _reply(HOSTILE))
    assert "".join(out) == "red text end\n"


@pytest.mark.parametrize("text", [EXACT, HOSTILE, "\n\nno line end", "ends\n\n"])
async def test_RU_S1_text_on_a_pipe_and_in_a_file_is_the_models_byte_for_byte(
    tmp_path: Path, text: str
) -> None:
    async with FakeLLM([reply(text, chars=3), reply(text)]) as server:
        program = program_of(tmp_path, server.url)
        piped = await program.run("exec", "hi")
        await program.run("exec", "-o", "out.txt", "hi")
    expected = text if text.endswith("\n") else text + "\n"
    assert piped.out == expected
    assert (program.repo / "out.txt").read_bytes().decode() == expected


async def test_RU_S1_a_long_answer_is_on_the_pipe_before_it_is_over(tmp_path: Path) -> None:
    start = "line of the answer\n" * 50
    async with FakeLLM([reply(start + "the end", fault=Stall(after=len(start) // 8))]) as server:
        program = program_of(tmp_path, server.url)
        async with running(program, "exec", "hi") as process:
            assert process.stdout is not None
            first = await asyncio.wait_for(process.stdout.readexactly(len(start) - 20), 50)
            process.send_signal(signal.SIGINT)
            rest = await process.stdout.read()
    assert start.startswith((first + rest).decode().rstrip("\n"))


@pytest.mark.parametrize("is_terminal", [True, False])
def test_RU_S1_words_before_a_call_are_progress_and_written_once(is_terminal: bool) -> None:
    out: list[str] = []
    err: list[str] = []
    form = TextFormat(out.append, err.append, is_terminal=is_terminal)
    used = Call("c", "read_file", "{}")
    _written(
        form,
        TextDelta("r", 0, "I look."),
        ToolCallDelta("r", "c", "read_file", "{}"),
        _reply("I look.", used),
        ToolStarted(used, "low", "read_file a", True),
        TextDelta("s", 0, "Done."),
        _reply("Done."),
    )
    expected = (
        ("I look.\nDone.\n", "• read_file a\n") if is_terminal else ("Done.\n", "I look.\n• read_file a\n")
    )
    assert ("".join(out), "".join(err)) == expected


def test_RU_S1_half_a_reply_is_written_only_where_no_whole_one_follows() -> None:
    result = RunResult(Outcome("completed", "", "", 1, ()), "", NO_USAGE, 0, 0, ())
    for later, expected in (([_reply("whole")], "whole\n"), ([], "half\n")):
        out: list[str] = []
        form = TextFormat(out.append, out.append, is_terminal=False)
        _written(form, TextDelta("r", 0, "half"), _reply("half", finish="cut"), *later)
        form.finish(result)
        assert "".join(out) == expected


def test_RU_S1_progress_in_the_middle_of_a_line_begins_its_own_on_a_terminal() -> None:
    both: list[str] = []
    form = TextFormat(both.append, both.append, is_terminal=True)
    _written(
        form,
        TextDelta("r", 0, "half"),
        Notice("info", "news"),
        TextDelta("r", 0, " more"),
        _reply("half more"),
    )
    assert "".join(both) == "half\n  info: news\n more\n"


@pytest.mark.parametrize("lane", DIRECT)
async def test_the_key_is_nowhere_but_in_the_header(tmp_path: Path, lane: str) -> None:
    """Not on either stream, not in the session, not in the log, not in a command's environment."""
    script = [
        reply(call("run_shell", command="env; cat ~/.config/buddy/buddy.toml")),
        reply("ok", fault=HttpError(401, body={"error": {"message": "bad key sk-test-journey-0123456789"}})),
    ]
    async with FakeLLM(script) as server:
        program = program_of(tmp_path, server.url, lane)
        ran = await program.run("exec", *YOLO, "--debug", "--output-format", "stream-json", "hi")
    assert ran.code == 4
    assert "sk-test-journey" in json.dumps([one.headers for one in server.requests])
    assert "sk-test-journey" not in json.dumps([one.json for one in server.requests])
    assert "sk-test-journey" not in ran.out + ran.err
    for folder in (program.repo, program.home):
        for path in folder.rglob("*"):
            if path.is_file():
                assert b"sk-test-journey" not in path.read_bytes(), path


def test_RU_5_11_input_tokens_leave_out_what_the_cache_read_and_took() -> None:
    usage = usage_object(Usage(300, 20, 100, 50, 0, estimated=False))
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (150, 100)
    assert usage["cache_creation_input_tokens"] == 50


def test_calls_that_were_not_begun_share_a_line_of_the_progress() -> None:
    lines: list[str] = []
    progress = ProgressLines(lines.append)
    for at in range(1000):
        call_id, begun = f"c{at}", at == 0
        progress.event(ToolStarted(Call(call_id, "read_file", "{}"), "low", "read_file a", begun))
        progress.event(ToolFinished(call_id, "cancelled", CANCELLED_TEXT, NOTHING, 0.0, cached=False))
    progress.event(TurnFinished("cancelled", "cancelled", "", 1, 0.0))
    assert lines == [
        "• read_file a\n",
        "  cancelled: operation cancelled by user\n",
        "  999 more calls were not begun\n",
    ]
