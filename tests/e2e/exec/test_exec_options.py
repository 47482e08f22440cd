"""The options of `buddy exec`: limits, models, modes, sessions; the exit codes; signals."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.agent.messages import text_of
from buddy.app.launch import check_yolo
from buddy.app.options import UsageError
from buddy.cli.arguments import parse
from buddy.safety.policy.decide import CLAUDE_MODES
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, Stall, Tokens, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import DIRECT, YOLO, Program, running
from tests.support.program import finished as ended
from tests.support.waiting import until

TOOLS = ("read_file", "write_file", "run_shell")


def program_of(tmp_path: Path, url: str, lane: str = "chat", **more: object) -> Program:
    program = Program(tmp_path, url, lane, TOOLS, **more)
    program.files(a__txt="alpha\n")
    return program


def late_for(text: str) -> Callable[[Asked], Reply]:
    """A model that never answers this prompt."""
    return lambda asked: reply("ok", fault=Stall(after=-1) if asked.last_user_text == text else None)


def writes(count: int) -> list[Reply]:
    return [reply(call("write_file", path=f"{number}.txt", content="x")) for number in range(count)]


# --- limits -----------------------------------------------------------------------------------------------


async def test_REL_041_the_limit_of_replies_ends_the_run_with_5_and_it_can_be_continued(
    tmp_path: Path,
) -> None:
    async with FakeLLM([*writes(3), reply("Done.")]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", *YOLO, "--max-turns", "2", "Write")
        assert (ran.code, ran.out) == (5, "")
        assert ran.told() == ["the limit of 2 replies a turn is reached"]
        again = await program.run("exec", *YOLO, "--continue")
    assert (again.code, again.out) == (0, "Done.\n")
    assert await program.prompts() == ["Write"]
    assert sorted(path.name for path in program.repo.glob("?.txt")) == ["0.txt", "1.txt", "2.txt", "a.txt"]


@pytest.mark.parametrize("background", [True, False])
async def test_the_replies_of_subagents_count_for_the_limit(tmp_path: Path, background: bool) -> None:
    delegated = reply(call("delegate", task="Go on", background=background))
    async with FakeLLM([delegated] * 20) as server:
        program = Program(tmp_path, server.url, "chat", ("delegate",))
        ran = await program.run("exec", "--permission-mode", "edit", "--max-turns", "4", "Go")
    assert ran.code == 5
    assert len(server.requests) == 4


async def test_REL_041_the_limit_of_money_ends_the_run_with_5_and_it_can_be_continued(tmp_path: Path) -> None:
    """gpt-4o costs 2.50 and 10 dollars per million: the first reply costs 2.60, the next may cost more."""
    script = [
        reply(call("read_file", path="a.txt"), usage=Tokens(1_000_000, 10_000)),
        reply("Done."),
    ]
    async with FakeLLM(script) as server:
        program = program_of(tmp_path, server.url, settings={"api": {"model": "openai/gpt-4o"}})
        ran = await program.run("exec", "--max-cost", "2.5", "--output-format", "json", "Read")
        assert ran.code == 5
        (result,) = ran.objects()
        assert (result["subtype"], result["total_cost_usd"]) == ("error_max_budget_usd", 2.6)
        assert ran.told() == [result["result"]]
        assert result["result"].startswith("the budget of $2.5 is used up ($2.60 spent)")
        again = await program.run("exec", "--continue", "--max-cost", "9")
    assert (again.code, again.out) == (0, "Done.\n")


async def test_a_budget_too_small_for_the_first_request_sends_none(tmp_path: Path) -> None:
    async with FakeLLM([reply("Done.")]) as server:
        program = program_of(tmp_path, server.url, settings={"api": {"model": "openai/gpt-4o"}})
        ran = await program.run("exec", "--max-cost", "0.0001", "hi")
    assert (ran.code, server.requests) == (5, [])
    assert ran.told()[0].endswith("$0.0001 of the budget is left")


async def test_a_limit_of_money_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")]) as server:
        ran = await program_of(tmp_path, server.url).run("exec", "--max-cost", "1", "hi")
    assert (ran.code, ran.out) == (0, "ok\n")
    unknown = "the price of openai/fake-model is not known; --max-cost only works if the server"
    assert ran.told() == [f"{unknown} reports its prices"]


async def test_RU_P5_a_limit_of_money_holds_by_what_the_server_bills(tmp_path: Path) -> None:
    script = [reply(call("read_file", path="a.txt"), usage=Tokens(100, 10, cost=1.5)), reply("Done.")]
    async with FakeLLM(script) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", "--max-cost", "1", "--output-format", "json", "Read")
    assert ran.code == 5
    (result,) = ran.objects()
    assert (result["total_cost_usd"], len(server.requests)) == (1.5, 1)
    assert result["result"] == "the budget of $1 is used up ($1.50 spent)"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--max-turns", "0"], "--max-turns needs a whole number from 1, found '0'"),
        (["--max-turns", "1" * 5000], f"--max-turns needs a whole number from 1, found '{'1' * 40}'"),
        (["--max-turns", "many"], "--max-turns needs a whole number from 1, found 'many'"),
        (["--max-cost", "-1"], "--max-cost needs an amount of dollars above 0, found '-1'"),
        (["--max-cost", "nan"], "--max-cost needs an amount of dollars above 0, found 'nan'"),
        (
            ["--output-format", "xml"],
            "--output-format is one of text, json, stream-json, sse, codex-json; found 'xml'",
        ),
        (["--permission-mode", "wild"], "--permission-mode is one of plan, ask, edit, auto, yolo"),
        (["--permission-prompts", "maybe"], "--permission-prompts is one of deny, fail; found 'maybe'"),
        (["--modle", "x"], "unknown option '--modle'; did you mean --model?"),
        (["--resume", "nobody"], "nobody"),
        (["--continue"], "no session"),
        (["--add-dir", "/nowhere"], "--add-dir: '/nowhere' is not a directory"),
        (["--model"], "--model needs a value"),
        (["--trust=yes"], "--trust takes no value, found 'yes'"),
    ],
)
async def test_arguments_that_cannot_be_meant_are_one_line_and_2(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", "hi", *arguments)
    assert (ran.code, ran.out, server.requests) == (2, "", []), ran.err
    (line,) = ran.told()
    assert words in line
    assert program.sessions() == []


async def test_no_prompt_is_said(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        ran = await program_of(tmp_path, server.url).run("exec")
    assert (ran.code, ran.told()) == (
        2,
        ['no prompt: expected buddy exec "what to do", or a prompt on stdin'],
    )


# --- models -----------------------------------------------------------------------------------------------


async def test_another_model_is_asked_by_name_or_profile(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")] * 4) as server:
        fast = {"model": "anthropic/small", "base_url": server.url, "api_key_env": "FAKE_LLM_KEY"}
        program = program_of(tmp_path, server.url, settings={"models": {"fast": fast}})
        assert (await program.run("exec", "-m", "fast", "hi")).code == 0
        assert (await program.run("exec", "--model=openai/other", "hi")).code == 0
        assert (await program.run("exec", "hi")).code == 0
        program.environment = {"BUDDY_MODEL": "fast"}
        assert (await program.run("exec", "hi")).code == 0
    assert [(one.api, one.model) for one in server.requests] == [
        ("anthropic", "small"), ("chat", "other"), ("chat", "fake-model"), ("anthropic", "small"),
    ]  # fmt: skip


async def test_a_session_goes_on_with_its_model_unless_told_otherwise(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")] * 3) as server:
        program = program_of(tmp_path, server.url)
        await program.run("exec", "-m", "openai/other", "one")
        await program.run("exec", "--continue", "two")
        await program.run("exec", "--continue", "-m", "openai/third", "three")
    assert [one.model for one in server.requests] == ["other", "other", "third"]


@pytest.mark.parametrize("place", ["before", "after"])
async def test_options_mean_the_same_before_and_after_the_subcommand(tmp_path: Path, place: str) -> None:
    options = ["-m", "openai/other", "--output-format", "json", "--max-turns=3", "--permission-mode", "plan"]
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        words = [*options, "exec", "hi"] if place == "before" else ["exec", "hi", *options]
        ran = await program.run(*words)
    assert (ran.code, ran.objects()[0]["result"]) == (0, "ok")
    assert server.requests[0].model == "other"


async def test_p_is_exec(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")] * 2) as server:
        program = program_of(tmp_path, server.url)
        assert (await program.run("-p", "hi")).out == "ok\n"
        assert (await program.run("exec", "--", "--not an option")).out == "ok\n"
    assert [one.last_user_text for one in server.requests] == ["hi", "--not an option"]


# --- permissions ------------------------------------------------------------------------------------------

CALLS = {
    "read": call("read_file", path="a.txt"),
    "write": call("write_file", path="new.txt", content="x"),
    "look": call("run_shell", command="git log --oneline"),
    "shell": call("run_shell", command="touch made.txt"),
}


@pytest.mark.parametrize(
    ("mode", "runs"),
    [
        (["--permission-mode", "plan"], {"read", "look"}),
        (["--permission-mode", "ask"], {"read", "look"}),
        ([], {"read", "look"}),
        (["--permission-mode", "edit"], {"read", "look", "write"}),
        (["--permission-mode", "auto"], {"read", "look", "write"}),
        (list(YOLO), {"read", "look", "write", "shell"}),
        (["--allow", "Bash(touch *)"], {"read", "look", "shell"}),
    ],
)
async def test_a_mode_says_what_runs_and_the_rest_is_denied_and_told(
    tmp_path: Path, mode: list[str], runs: set[str]
) -> None:
    async with FakeLLM([reply(*CALLS.values()), reply("Done.")]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", *mode, "--output-format", "json", "Work")
    (result,) = ran.objects()
    texts = dict(zip(CALLS, server.requests[1].tool_results, strict=True))
    assert {name for name, text in texts.items() if not text.startswith("denied: ")} == runs
    lacking = [one for one in result["permission_denials"] if "advice" in one]
    assert ran.code == (3 if lacking else 0), "the run goes on after a denial"
    assert (result["is_error"], result["error"]) == (bool(lacking), "approval" if lacking else "")
    assert result["result"] == "Done.", "what was answered is kept"
    assert [one["tool_input"] for one in result["permission_denials"]] == [
        CALLS[name].arguments for name in CALLS if name not in runs
    ]
    assert (program.repo / "new.txt").exists() == ("write" in runs)
    assert (program.repo / "made.txt").exists() == ("shell" in runs)


ADVICE = 'Rerun with --permission-mode edit or --allow "Edit(new.txt)".'


async def test_RU_B3_a_call_that_nobody_could_approve_ends_in_3_and_on_the_last_line(tmp_path: Path) -> None:
    async with FakeLLM([reply(CALLS["write"]), reply("Done: it is written.")]) as server:
        ran = await program_of(tmp_path, server.url).run("exec", "Work")
    assert (ran.code, ran.out) == (3, "Done: it is written.\n")
    assert ran.err.splitlines() == [
        "• write_file new.txt",
        f"  Skipped, needs approval. {ADVICE}",
        f"buddy: 1 call was skipped because they need an approval. {ADVICE}",
    ]


@pytest.mark.parametrize("form", ["json", "stream-json", "sse"])
async def test_RU_B3_each_format_says_that_an_approval_was_missing(tmp_path: Path, form: str) -> None:
    async with FakeLLM([reply(CALLS["write"]), reply("Done.")]) as server:
        ran = await program_of(tmp_path, server.url).run("exec", "--output-format", form, "Work")
    last = json.loads(ran.out.strip().splitlines()[-1].removeprefix("data: "))
    assert (ran.code, last["subtype"], last["is_error"]) == (3, "error_during_execution", True)
    assert (last["error"], last["result"]) == ("approval", "Done.")
    assert [one["advice"] for one in last["permission_denials"]] == [f"Skipped, needs approval. {ADVICE}"]


@pytest.mark.parametrize("advice", [["--permission-mode", "edit"], ["--allow", "Edit(new.txt)"]])
async def test_RU_B3_each_advice_lets_the_call_run(tmp_path: Path, advice: list[str]) -> None:
    async with FakeLLM([reply(CALLS["write"]), reply("Done.")]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", *advice, "Work")
    assert (ran.code, (program.repo / "new.txt").read_text()) == (0, "x")


async def test_RU_B3_a_call_that_the_mode_forbids_needed_no_approval(tmp_path: Path) -> None:
    async with FakeLLM([reply(CALLS["write"]), reply("Done.")]) as server:
        ran = await program_of(tmp_path, server.url).run("exec", "--permission-mode", "plan", "Work")
    assert (ran.code, ran.told()) == (0, ["1 call was denied; the reasons are above."])


async def test_RU_B3_no_rule_is_advised_for_what_no_rule_allows(tmp_path: Path) -> None:
    async with FakeLLM([reply(call("write_file", path=".git/hooks/x", content="")), reply("Ok.")]) as server:
        ran = await program_of(tmp_path, server.url).run("exec", "Work")
    assert ran.code == 3
    assert "Skipped, needs approval: .git/hooks/x is protected" in ran.err
    assert "Rerun" not in ran.err


async def test_a_run_that_fails_after_a_denial_ends_with_3(tmp_path: Path) -> None:
    script = [reply(CALLS["write"]), reply(""), reply("")]
    async with FakeLLM(script) as server:
        ran = await program_of(tmp_path, server.url).run("exec", "Work")
    assert ran.code == 3
    assert ran.told()[-1] == "the model answered with nothing, twice"


async def test_permission_prompts_fail_stops_at_the_first_denial(tmp_path: Path) -> None:
    async with FakeLLM([reply(CALLS["write"]), reply("Done.")]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", "--permission-prompts", "fail", "Work")
    assert (ran.code, ran.out) == (3, "")
    assert ran.told() == ["an approval was needed and nobody was there to give it: write_file new.txt"]
    assert not (program.repo / "new.txt").exists()
    assert len(server.requests) == 1
    await program.history()


@pytest.mark.parametrize(("claude", "mode"), CLAUDE_MODES.items())
async def test_RU_5_1_every_mode_of_claude_is_a_mode_here(tmp_path: Path, claude: str, mode: str) -> None:
    async with FakeLLM([reply("hi")]) as server:
        ran = await program_of(tmp_path, server.url).run(
            "exec", "--permission-mode", claude, "--i-know", "--output-format", "stream-json", "hi"
        )
    assert (ran.code, ran.objects()[0]["permissionMode"]) == (0, claude), ran.err
    assert parse(["--permission-mode", claude]).permission_mode == mode


async def test_RU_5_1_yolo_in_claudes_words_must_be_meant_as_root_too() -> None:
    for name in ("yolo", "bypassPermissions"):
        options = parse(["--permission-mode", name])
        if os.geteuid() == 0 and not os.path.exists("/.dockerenv"):
            with pytest.raises(UsageError, match="--i-know"):
                check_yolo(options, {})


async def test_yolo_as_root_must_be_meant(tmp_path: Path) -> None:
    if os.geteuid() or os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return  # for anybody else, and inside a container, yolo needs nothing more
    async with FakeLLM([]) as server:
        ran = await program_of(tmp_path, server.url).run("exec", "--permission-mode", "yolo", "hi")
    assert (ran.code, "--i-know" in ran.err) == (2, True)


async def test_a_project_is_believed_only_when_trusted(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")] * 2) as server:
        program = program_of(tmp_path, server.url)
        (program.repo / "buddy.toml").write_text('[agent]\nsystem_prompt = "From the project."\n')
        ran = await program.run("exec", "hi")
        assert ran.code == 0
        assert ran.told() == [
            "buddy.toml of this folder is ignored until you trust the folder (/trust, --trust)"
        ]
        assert "From the project." not in server.requests[0].turns[0][1]
        assert (await program.run("exec", "--trust", "--require-trust", "hi")).code == 0
        assert "From the project." in server.requests[1].turns[0][1]
        ran = await program.run("exec", "--require-trust", "hi")
    assert ran.code == 4
    assert ran.told() == [f"{program.repo} is not trusted; start buddy there once, or give --trust"]


# --- sessions ---------------------------------------------------------------------------------------------


async def test_a_session_is_continued_resumed_and_forked(tmp_path: Path) -> None:
    async with FakeLLM([reply(f"answer {number}") for number in range(5)]) as server:
        program = program_of(tmp_path, server.url)
        await program.run("exec", "one")
        (first,) = program.sessions()
        await program.run("exec", "other")
        assert (await program.run("exec", "--resume", first[:6], "two")).code == 0
        assert (await program.run("exec", "--continue", "three")).code == 0
        forked = await program.run("exec", "--resume", first, "--fork", "four", "--output-format", "json")

    assert [text for role, text in server.requests[3].turns if role in ("user", "assistant")] == [
        "one", "answer 0", "two", "answer 2", "three",
    ]  # fmt: skip
    assert len(program.sessions()) == 3
    (result,) = forked.objects()
    assert result["session_id"] != first
    assert [text_of(one) for one in await program.history(first)][-2:] == ["three", "answer 3"]
    assert [text_of(one) for one in await program.history(result["session_id"])][-2:] == ["four", "answer 4"]


async def test_an_ephemeral_run_leaves_no_session(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        assert (await program.run("exec", "--ephemeral", "hi")).out == "ok\n"
    assert program.sessions() == []


async def test_an_ephemeral_run_never_deletes_a_session_that_was_there(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok"), reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        await program.run("exec", "hi")
        ran = await program.run("exec", "--ephemeral", "--continue", "more")
    assert ran.code == 2
    assert ran.told() == ["--ephemeral is for new sessions; with --continue or --resume add --fork"]
    assert await program.prompts() == ["hi"]


async def test_resume_without_a_terminal_takes_the_session_not_its_id_as_a_prompt(tmp_path: Path) -> None:
    async with FakeLLM([reply(f"answer {number}") for number in range(5)]) as server:
        program = program_of(tmp_path, server.url)
        await program.run("exec", "one")
        (first,) = program.sessions()
        await program.run("exec", "other")
        assert (await program.run("resume", first, "two")).out == "answer 2\n"
        assert (await program.run("resume", first[:6], stdin=b"three")).out == "answer 3\n"
        assert (await program.run("resume", "--last", "four")).out == "answer 4\n"
        unknown = await program.run("resume", "zzz")
        assert (unknown.code, unknown.told()) == (
            2,
            [f"there is no session 'zzz' in {program.repo}; see `buddy sessions`"],
        )
    assert len(server.requests) == 5
    assert [text for role, text in server.requests[4].turns if role == "user"] == [
        "one",
        "two",
        "three",
        "four",
    ]
    assert len(program.sessions()) == 2


@pytest.mark.parametrize("words", [["exec", "--resume"], ["exec", "-r"], ["resume"]])
async def test_RU_B20_a_session_in_use_is_named_with_the_one_way_there_is(
    tmp_path: Path, words: list[str]
) -> None:
    async with FakeLLM([reply("one"), reply("two")]) as server:
        program = program_of(tmp_path, server.url)
        await program.run("exec", "hi")
        (session_id,) = program.sessions()
        held = await program.store().open("last")
        refused = await program.run(*words, session_id, "more")
        forked = await program.run(*words, session_id, "--fork", "more")
        await held.close()
    assert refused.code == 2
    assert refused.told() == [f"Open in another buddy (pid {os.getpid()}). `--fork` continues in a copy."]
    assert (forked.code, forked.out) == (0, "two\n")


@pytest.mark.parametrize("blank", ["   ", "\n\t "])
async def test_RU_B21_a_prompt_of_blanks_is_none(tmp_path: Path, blank: str) -> None:
    async with FakeLLM([]) as server:
        program = program_of(tmp_path, server.url)
        assert (await program.run("exec", blank)).code == 2
        assert (await program.run("exec", stdin=blank.encode())).code == 2
    assert server.requests == []


async def test_a_denied_call_is_said_to_be_denied_once(tmp_path: Path) -> None:
    async with FakeLLM([reply(call("write_file", path="b.txt", content="b")), reply("ok")]) as server:
        ran = await program_of(tmp_path, server.url).run("exec", "Write")
    assert ran.err.count("denied") == 0
    assert ran.err.count("Skipped, needs approval.") == 1


async def test_nothing_to_continue_is_said(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        await program.run("exec", "hi")
        ran = await program.run("exec", "--continue")
    assert ran.code == 2
    assert ran.told() == ["task 1 has nothing to continue: the model had finished"]


async def test_a_session_in_use_is_refused(tmp_path: Path) -> None:
    async with FakeLLM([reply("late", fault=Stall(after=-1))]) as server:
        program = program_of(tmp_path, server.url)
        async with running(program, "exec", "hi"):
            await server.arrived(1)
            ran = await program.run("exec", "--continue", "more")
    assert (ran.code, len(ran.told())) == (2, 1), ran.err
    assert "Open in another buddy" in ran.err


async def test_debug_prints_the_path_of_a_log_that_is_written(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", "--debug", "hi")
    path = Path(ran.told()[0].removeprefix("log: "))
    assert path.parent == program.home / ".local/state/buddy/logs"
    assert path.stat().st_mode & 0o777 == 0o600
    assert (ran.code, ran.out) == (0, "ok\n")


# --- signals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
@pytest.mark.parametrize("lane", DIRECT)
async def test_REL_056_a_signal_ends_the_run_and_keeps_what_arrived(
    tmp_path: Path, lane: str, number: signal.Signals, code: int
) -> None:
    async with FakeLLM([reply("one two three four five", fault=Stall(after=2)), reply("six")]) as server:
        program = program_of(tmp_path, server.url, lane)
        async with running(program, "exec", "Count") as process:
            await until(lambda: '"partial"' in _journal(program))
            process.send_signal(number)
            ran = await ended(process)
        shown = text_of((await program.history())[-1])
        again = await program.run("exec", "--continue")
        requests = await server.ended(2)
    assert ran.code == code, ran.err
    assert ran.told() == ["terminated" if code == 143 else "interrupted"]
    assert "one two three four five".startswith(shown)
    assert shown
    assert requests[0].outcome == "aborted", "the connection is closed"
    assert (again.code, again.out) == (0, "six\n")
    assert requests[1].turns[-2:] == [("assistant", shown), ("user", "Continue exactly where you stopped.")]


async def test_a_signal_ends_the_command_that_runs(tmp_path: Path) -> None:
    slow = call("run_shell", command="touch began; sleep 61.75")
    async with FakeLLM([reply(slow), reply("unreachable")]) as server:
        program = program_of(tmp_path, server.url)
        async with running(program, "exec", *YOLO, "Sleep") as process:
            await until((program.repo / "began").exists)
            process.send_signal(signal.SIGINT)
            ran = await ended(process)
    assert ran.code == 130
    assert text_of((await program.history())[-1]) == "operation cancelled by user"
    assert not _commands_with("61.75")


@pytest.mark.parametrize("sign", [".local/state/buddy/logs", "../repo/.buddyx/sessions/*/lock"])
async def test_a_signal_during_start_up_ends_the_run(tmp_path: Path, sign: str) -> None:
    async with FakeLLM(late_for("hi")) as server:
        program = program_of(tmp_path, server.url)
        async with running(program, "exec", "hi") as process:
            await until(lambda: list(program.home.glob(sign)))
            process.send_signal(signal.SIGINT)
            ran = await ended(process)
        assert ran.code == 130, ran
        # Python itself reports a half-made event loop it throws away ("Exception ignored in …"); buddy adds
        # nothing to it.
        assert "Traceback" not in ran.err.split("Exception ignored in", 1)[0]
        assert (await program.run("sessions")).code == 0
        assert (await program.run("exec", "again")).code == 0


def _journal(program: Program) -> str:
    return "".join(
        path.read_text(errors="replace")
        for path in (program.repo / ".buddyx/sessions").glob("*/journal.jsonl")
    )


def _commands_with(mark: str) -> list[str]:
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if mark in text:
            found.append(text)
    return found


@pytest.mark.parametrize(
    "words", [("replay", "--help"), ("replay", "--port", "80"), ("replay", "-x"), ("replay", "abc")]
)
async def test_a_command_of_a_later_version_is_not_taken_for_a_prompt(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run(*words)
        assert (ran.code, ran.out) == (2, "")
        assert ran.told() == [
            f"buddy {words[0]} is not part of this version; `buddy --help` lists what is. "
            f"To send it as a prompt: buddy exec -- {' '.join(words)}"
        ]
        assert server.requests == []
        assert program.sessions() == []


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (("exec", "replay"), "replay"),
        (("exec", "--", "serve", "--help"), "serve --help"),
        (("-p", "serve"), "serve"),
        (("--", "replay", "it"), "replay it"),
        (("serve the page",), "serve the page"),
    ],
)
async def test_the_same_words_are_a_prompt_where_they_are_meant_as_one(
    tmp_path: Path, arguments: tuple[str, ...], prompt: str
) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        assert (await program.run(*arguments)).out == "ok\n"
        assert await program.prompts() == [prompt]
