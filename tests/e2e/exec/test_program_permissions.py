"""Requests for approval that the program driving buddy answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.driver import ASKS, driving, request, said
from tests.support.program import Program

WRITE = reply(call("write_file", path="a.txt", content="one\n"))


def result_of(server: FakeLLM, at: int = -1) -> str:
    return str(server.requests[at].tool_results[-1])


async def test_an_allowed_call_runs_with_its_names_of_claude(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"))
            asked = await driver.asked("can_use_tool")
            given = asked["request"]
            driver.answer(asked, behavior="allow", updatedInput=given["input"])
            ended = await driver.result()
            code = await driver.end()
    assert (given["tool_name"], given["input"]) == ("Write", {"file_path": "a.txt", "content": "one\n"})
    assert given["tool_use_id"]
    assert (program.repo / "a.txt").read_text() == "one\n"
    assert (code, ended["subtype"], ended["permission_denials"]) == (0, "success", [])


async def test_an_allowed_call_runs_with_the_input_of_the_program(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"))
            asked = await driver.asked("can_use_tool")
            changed = {"file_path": "b.txt", "content": "two\n"}
            driver.answer(asked, behavior="allow", updatedInput=changed)
            await driver.result()
            code = await driver.end()
    assert code == 0
    assert not (program.repo / "a.txt").exists()
    assert (program.repo / "b.txt").read_text() == "two\n"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"file_path": "b.txt"}, "does not take"),
        ({"file_path": ["x"], "content": ""}, "does not take"),
        ({"file_path": "b.txt", "content": "[core]\n"}, "another input"),
    ],
)
async def test_another_input_is_judged_like_any_call(
    tmp_path: Path, changed: dict[str, Any], reason: str
) -> None:
    async with FakeLLM([WRITE, reply("Done.")]) as server:
        program = Program(tmp_path, server.url, settings={"permissions": {"deny": ["Write(b.txt)"]}})
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"))
            driver.answer(await driver.asked("can_use_tool"), behavior="allow", updatedInput=changed)
            ended = await driver.result()
            await driver.end()
    assert reason in result_of(server)
    assert ended["permission_denials"]
    assert not (program.repo / "b.txt").exists()


async def test_a_denial_reaches_the_model_in_its_words(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("Understood.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"))
            driver.answer(await driver.asked("can_use_tool"), behavior="deny", message="use tabs, please")
            ended = await driver.result()
            code = await driver.end()
    assert "use tabs, please" in result_of(server)
    assert (code, ended["result"]) == (0, "Understood.")
    assert [one["tool_use_id"] for one in ended["permission_denials"]]
    assert not (program.repo / "a.txt").exists()


async def test_a_denial_that_interrupts_ends_the_turn_and_not_the_run(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("Next.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"), said("and then"))
            asked = await driver.asked("can_use_tool")
            driver.answer(asked, behavior="deny", message="stop", interrupt=True)
            first, second = await driver.result(), await driver.result()
            code = await driver.end()
    assert (first["subtype"], second["result"], code) == ("error_during_execution", "Next.", 0)


@pytest.mark.parametrize(
    "answer",
    [{}, {"behavior": "maybe"}, {"behavior": "allow", "updatedInput": "rm"}, {"behavior": True}],
)
async def test_what_is_no_answer_denies(tmp_path: Path, answer: dict[str, Any]) -> None:
    async with FakeLLM([WRITE, reply("No.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"))
            driver.answer(await driver.asked("can_use_tool"), **answer)
            await driver.result()
            assert await driver.end() == 0
    assert "gave no permission" in result_of(server)
    assert not (program.repo / "a.txt").exists()


async def test_an_error_or_a_closed_pipe_denies(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, WRITE, reply("No.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"))
            driver.refuse(await driver.asked("can_use_tool"), "callback failed")
            await driver.asked("can_use_tool")
            assert await driver.end() == 0
    assert "callback failed" in result_of(server, 1)
    assert "closed its input" in result_of(server, 2)
    assert not (program.repo / "a.txt").exists()


async def test_suggested_rules_hold_for_the_session(tmp_path: Path) -> None:
    commands = [reply(call("run_shell", command="touch a.txt")) for _ in range(2)]
    async with FakeLLM([*commands, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("touch"))
            asked = await driver.asked("can_use_tool")
            suggested = asked["request"]["permission_suggestions"]
            driver.answer(asked, behavior="allow", updatedPermissions=suggested)
            await driver.result()
            code = await driver.end()
    assert asked["request"]["tool_name"] == "Bash"
    assert suggested[0]["rules"] == [{"toolName": "Bash", "ruleContent": "touch a.txt"}]
    again = [one for one in driver.seen if one["type"] == "control_request"]
    assert (code, len(again)) == (0, 1)


async def test_updates_of_permissions_are_applied_all_or_none(tmp_path: Path) -> None:
    updates = [
        {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
        {"type": "removeRules", "rules": [], "behavior": "deny", "destination": "session"},
    ]
    other = reply(call("write_file", path="b.txt", content="two\n"))
    async with FakeLLM([WRITE, other, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"))
            asked = await driver.asked("can_use_tool")
            driver.answer(asked, behavior="allow", updatedPermissions=updates)
            driver.answer(await driver.asked("can_use_tool"), behavior="deny", message="no")
            await driver.result()
            await driver.end()
    assert (program.repo / "a.txt").exists()
    assert not (program.repo / "b.txt").exists()


EDITS_UPDATE = [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]


@pytest.mark.parametrize("updates", [EDITS_UPDATE, None], ids=["setMode", "buddy's own suggestions"])
async def test_a_changed_input_counts_beside_updated_permissions(tmp_path: Path, updates: Any) -> None:
    async with FakeLLM([WRITE, WRITE, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"))
            asked = await driver.asked("can_use_tool")
            changed = {"file_path": "b.txt", "content": "two\n"}
            permissions = updates or asked["request"]["permission_suggestions"]
            driver.answer(asked, behavior="allow", updatedInput=changed, updatedPermissions=permissions)
            await driver.result()
            code = await driver.end()
    again = [one for one in driver.seen if one["type"] == "control_request"]
    assert "a.txt" not in result_of(server, 1)
    assert (program.repo / "b.txt").read_text() == "two\n"
    assert (program.repo / "a.txt").read_text() == "one\n"  # the second call, which the updates allow
    assert (code, len(again)) == (0, 1)


async def test_rules_of_an_answer_judge_its_changed_input(tmp_path: Path) -> None:
    rules = [{"toolName": "Write", "ruleContent": "b.txt"}]
    deny = [{"type": "addRules", "rules": rules, "behavior": "deny", "destination": "session"}]
    async with FakeLLM([WRITE, reply("No.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("write"))
            changed = {"file_path": "b.txt", "content": "two\n"}
            asked = await driver.asked("can_use_tool")
            driver.answer(asked, behavior="allow", updatedInput=changed, updatedPermissions=deny)
            await driver.result()
            await driver.end()
    assert not (program.repo / "a.txt").exists()
    assert not (program.repo / "b.txt").exists()


async def test_a_question_of_the_model_is_answered_by_the_program(tmp_path: Path) -> None:
    question = {"question": "Which colour?", "options": [{"label": "red"}, {"label": "blue"}]}
    async with FakeLLM([reply(call("ask_user", questions=[question])), reply("Blue it is.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program, *ASKS) as driver:
            driver.send(said("ask"))
            asked = await driver.asked("can_use_tool")
            given = asked["request"]["input"]
            answers = {"Which colour?": "blue"}
            driver.answer(asked, behavior="allow", updatedInput={**given, "answers": answers})
            await driver.result()
            await driver.end()
    assert asked["request"]["tool_name"] == "AskUserQuestion"
    assert "blue" in result_of(server)


@pytest.mark.parametrize(
    ("labels", "multiple", "answer"),
    [
        (["4", "2", "1"], False, "1"),
        (["8080", "9090"], False, "8080"),
        (["3", "1", "2"], True, "3, 2"),
        (["4", "2"], True, "4"),
    ],
)
async def test_a_label_that_is_a_number_is_no_option_number(
    tmp_path: Path, labels: list[str], multiple: bool, answer: str
) -> None:
    options = [{"label": label} for label in labels]
    question = {"question": "Which?", "options": options, "multiple": multiple}
    async with (
        FakeLLM([reply(call("ask_user", questions=[question])), reply("Fine.")]) as server,
        driving(Program(tmp_path, server.url), *ASKS) as driver,
    ):
        driver.send(said("ask"))
        asked = await driver.asked("can_use_tool")
        updated = {**asked["request"]["input"], "answers": {"Which?": answer}}
        driver.answer(asked, behavior="allow", updatedInput=updated)
        await driver.result()
        await driver.end()
    assert result_of(server).endswith(f"→ {answer}")


@pytest.mark.parametrize("behavior", ["allow", "deny"])
async def test_a_late_answer_leaves_the_next_question_alone(tmp_path: Path, behavior: str) -> None:
    asks = [reply(call("ask_user", questions=[{"question": name}])) for name in ("First?", "Second?")]
    async with (
        FakeLLM([*asks, reply("Done.")]) as server,
        driving(Program(tmp_path, server.url), *ASKS) as driver,
    ):
        driver.send(said("ask"))
        first = await driver.asked("can_use_tool")
        driver.send(request(1, "interrupt"), said("again"))
        withdrawn = await driver.until(lambda one: one["type"] == "control_cancel_request")
        second = await driver.asked("can_use_tool")
        driver.answer(first, behavior=behavior, updatedInput={"answers": {"First?": "late"}})
        refused = await driver.until(lambda one: one.get("subtype") == "input_error")
        driver.answer(second, behavior="allow", updatedInput={"answers": {"Second?": "in time"}})
        await driver.result()
        assert await driver.end() == 0
    assert withdrawn["request_id"] == first["request_id"]
    assert first["request_id"] in refused["error"]
    assert result_of(server).endswith("→ in time")


async def test_without_a_program_that_answers_nothing_is_asked(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("No.")]) as server:
        program = Program(tmp_path, server.url)
        async with driving(program) as driver:
            driver.send(said("write"))
            await driver.result()
            code = await driver.end()
    assert code == 3
    assert not [one for one in driver.seen if one["type"] == "control_request"]
