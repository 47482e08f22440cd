"""`buddy acp` driven by the client of the protocol's own package, against the fake model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from acp import RequestError, text_block

from tests.fake_llm.script import Stall, call, reply
from tests.support.editor import opened

EDIT = [
    reply(call("read_file", path="a.py")),
    reply(call("edit_file", path="a.py", old_text="y = 2", new_text="y = 3")),
    reply("Done."),
]


async def test_an_edit_is_asked_about_with_its_diff_and_done_after_a_yes(tmp_path: Path) -> None:
    async with opened(tmp_path, EDIT) as (program, editor, connection, session_id, _server):
        response = await connection.prompt(session_id=session_id, prompt=[text_block("change y")])
        assert response.stop_reason == "end_turn"
        assert (program.repo / "a.py").read_text() == "x = 1\ny = 3\n"
        [(request, options)] = editor.requests
        assert options[0].kind == "allow_once"
        assert options[-1].kind == "reject_once"
        [diff] = [part for part in request.content or [] if part.type == "diff"]
        assert (diff.path, "y = 2" in diff.old_text, "y = 3" in diff.new_text) == (
            str(program.repo / "a.py"),
            True,
            True,
        )
        ends = [update for update in editor.of("tool_call_update") if update.status == "completed"]
        assert len(ends) == 2
        assert editor.text().startswith("Done.")
        assert "a.py" in editor.text()  # the receipt


@pytest.mark.parametrize("answer", ["no", "an option nobody offered"])
async def test_anything_but_a_yes_changes_nothing(tmp_path: Path, answer: str) -> None:
    async with opened(tmp_path, EDIT, answer=answer) as (program, editor, connection, session_id, server):
        response = await connection.prompt(session_id=session_id, prompt=[text_block("change y")])
        assert response.stop_reason == "end_turn"
        assert (program.repo / "a.py").read_text() == "x = 1\ny = 2\n"
        assert [update.status for update in editor.of("tool_call_update")][-1] == "failed"
        assert len(server.requests) == 3


async def test_a_closed_question_cancels_the_turn(tmp_path: Path) -> None:
    async with opened(tmp_path, EDIT, answer="cancelled") as (
        program,
        _editor,
        connection,
        session_id,
        _server,
    ):
        response = await connection.prompt(session_id=session_id, prompt=[text_block("change y")])
        assert response.stop_reason == "cancelled"
        assert (program.repo / "a.py").read_text() == "x = 1\ny = 2\n"


async def test_cancel_ends_a_stream_and_the_next_prompt_works(tmp_path: Path) -> None:
    replies = [reply("a beginning of a longer answer", fault=Stall(after=2)), reply("again")]
    async with opened(tmp_path, replies) as (_program, editor, connection, session_id, _server):
        prompt = asyncio.create_task(connection.prompt(session_id=session_id, prompt=[text_block("go")]))
        await editor.until("agent_message_chunk")
        await connection.cancel(session_id=session_id)
        assert (await prompt).stop_reason == "cancelled"
        after = await connection.prompt(session_id=session_id, prompt=[text_block("once more")])
        assert after.stop_reason == "end_turn"
        assert editor.text().endswith("again")


async def test_a_loaded_session_is_shown_again_and_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path, [*EDIT, reply("Yes.")]) as (program, editor, connection, session_id, _server):
        await connection.prompt(session_id=session_id, prompt=[text_block("change y")])
        await connection.close_session(session_id=session_id)
        editor.updates.clear()
        await connection.load_session(cwd=str(program.repo), session_id=session_id, mcp_servers=[])
        assert [update.content.text for update in editor.of("user_message_chunk")] == ["change y"]
        assert len(editor.of("tool_call")) == len(editor.of("tool_call_update")) == 2
        assert editor.text() == "Done."
        response = await connection.prompt(session_id=session_id, prompt=[text_block("is it done?")])
        assert response.stop_reason == "end_turn"
        listed = await connection.list_sessions(cwd=str(program.repo))
        assert [session.session_id for session in listed.sessions] == [session_id]


async def test_modes_and_slash_commands_work(tmp_path: Path) -> None:
    async with opened(tmp_path, EDIT) as (program, editor, connection, session_id, _server):
        await connection.set_session_mode(session_id=session_id, mode_id="edit")
        with pytest.raises(RequestError, match="Invalid params"):
            await connection.set_session_mode(session_id=session_id, mode_id="yolo")
        await connection.prompt(session_id=session_id, prompt=[text_block("change y")])
        assert editor.requests == []
        await editor.until("available_commands_update")
        [commands] = editor.of("available_commands_update")
        assert {"undo", "diff", "cost", "compact"} <= {one.name for one in commands.available_commands}
        await connection.prompt(session_id=session_id, prompt=[text_block("/undo")])
        assert (program.repo / "a.py").read_text() == "x = 1\ny = 2\n"
        editor.updates.clear()
        await connection.prompt(session_id=session_id, prompt=[text_block("/nonsense")])
        assert "there is no" in editor.text()


async def test_a_plan_and_a_question_reach_the_editor(tmp_path: Path) -> None:
    question = {"question": "Which one?", "options": [{"label": "red"}, {"label": "blue"}]}
    replies = [
        reply(call("todo", items=[{"text": "look", "state": "active"}])),
        reply(call("ask_user", questions=[question])),
        reply("Done."),
    ]
    async with opened(tmp_path, replies, answer="2") as (_program, editor, connection, session_id, server):
        await connection.prompt(session_id=session_id, prompt=[text_block("go")])
        [plan] = editor.of("plan")
        assert [(entry.content, entry.status) for entry in plan.entries] == [("look", "in_progress")]
        assert "blue" in str(server.requests[-1].json)


async def test_a_folder_that_is_not_there_is_refused_and_the_connection_lives(tmp_path: Path) -> None:
    async with opened(tmp_path, [reply("hi")]) as (_program, editor, connection, session_id, _server):
        for folder in ("relative", "/no/such/folder"):
            with pytest.raises(RequestError):
                await connection.new_session(cwd=folder, mcp_servers=[])
        response = await connection.prompt(session_id=session_id, prompt=[text_block("hello")])
        assert (response.stop_reason, editor.text()) == ("end_turn", "hi")
