"""Commands about approvals, sessions, models, workspace, set-up and screen, tried on a running repl."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path

import pytest

from buddy.agent.messages import UserMessage, text_of
from buddy.agent.tool import Access, ToolResult
from buddy.repl.commands.help import help_tables
from buddy.repl.commands.registry import CommandError, builtin_commands
from buddy.repl.intents import ApprovalAnswer, Cancel, Prompt, Slash
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import UNICODE, Look
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, Stall, call, reply
from tests.support.program import Program
from tests.support.repl import Repl, open_repl, open_repl_in

TYPED_BLIND = """
ok no queue help clear new session resume compact context cost status model models approve
permissions plan rewind undo diff init memory mcp skills agents hooks tasks ps fg bg kill timeout
wait steer queue btw fork rename export copy editor theme doctor login logout config add-dir cd
budget retry continue tools log redraw quit exit trust reset keys redo jobs mode
"""


def edits(asked: Asked) -> Reply:
    """Writes a file for each prompt, then says so."""
    if asked.turns[-1][0] == "user":
        name = asked.last_user_text.split()[-1]
        return reply(call("write_file", path=name, content="x = 1\n"))
    return reply("written")


async def said_hello(repl: Repl) -> str:
    """The id of a session in which something was said."""
    await repl.said("hello", "an answer")
    await repl.quiet()
    return repl.context.session.session_id


def test_everything_people_type_without_looking_is_there() -> None:
    commands = builtin_commands()
    for name in TYPED_BLIND.split():
        assert commands.find(name).help
    for one in commands.all():
        assert one.help[0].isupper() or one.help[0] == "(", one.name


def test_beginnings_typos_and_what_must_be_written_out() -> None:
    commands = builtin_commands()
    assert commands.find("comp").name == "compact"
    for line, said in {
        "hlep": "there is no /hlep; did you mean /help?",
        "modle": "there is no /modle; did you mean /model?",
        "zzz": "there is no /zzz; /help lists them",
        "deleg": "there is no /deleg; /help lists them",
        "unod": "there is no /unod; did you mean /undo?",
        "sesssions": "there is no /sesssions; did you mean /sessions?",
        "cst": "there is no /cst; did you mean /cost?",
        "kil": "/kill is destructive: type its full name",
        "rese": "/reset is destructive: type its full name",
        "qui": "/quit is destructive: type its full name",
        "co": "/co could be /commands, /compact, /config, /context, /continue, /copy, /cost",
    }.items():
        with pytest.raises(CommandError) as raised:
            commands.find(line)
        assert str(raised.value) == said


async def test_what_stands_after_a_command_that_takes_nothing_is_not_dropped(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        await repl.said(
            "/plan rename the parser", "/plan takes nothing after it, found 'rename the parser'; ↑"
        )
        assert repl.context.session.policy.mode == "ask"
        await repl.said("/reset now", "/reset takes nothing after it")
        await repl.said("/ps x", "expected nothing, -a or a task's number, found 'x'")


async def test_help_begins_with_what_a_beginner_needs(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        shown = await repl.said("/help", "Type what you want and press Enter", "/quit")
        assert len(shown.split("\n")[1]) > 20
        assert "also: /h, /?" in await repl.said("/help help", "also:")
        await repl.said("/help zzz", "there is no command and no page of the manual called")
        await repl.said("/help permision", "did you mean /help permissions?")
        await repl.said("/keys", "Shift+Tab")


async def test_ok_and_no_answer_by_number_with_words_and_for_a_time(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits) as repl:
        await repl.said("/ok", "No request is waiting for your approval")
        for name in ("a.py", "b.py", "c.py"):
            repl.say(f"write {name} &")
            await repl.until(
                lambda name=name: any(
                    name in one.event.call.arguments for one in repl.context.board.inbox.waiting()
                )
            )
        assert [one.number for one in repl.context.board.inbox.waiting()] == [1, 2, 3]
        await repl.said("/ok 9", "No request has the number 9. Waiting: 1, 2, 3.")
        await repl.said("/no 2 use another name", "denied")
        await repl.said("/ok 3", "approved once")
        repl.say("/ok")
        await repl.quiet()
        assert sorted(path.name for path in repl.program.repo.glob("?.py")) == ["a.py", "c.py"]
        assert any("use another name" in text for one in repl.server.requests for text in one.tool_results)
        repl.say("write d.py")
        await repl.until(lambda: bool(repl.context.board.inbox.waiting()))
        repl.say("/ok all 10m")
        await repl.quiet()
        await repl.said(
            "/permissions", "Mode ask: edits and commands ask. Requests wait", "1 │ session", "s left"
        )
        await repl.said("/permissions remove 2", "expected a number of /permissions (1), found '2'")
        await repl.said("/permissions remove 1", "removed for this session: allow edit:")
        await repl.said("/permissions remove 1", "There is nothing to remove")


async def test_a_word_that_begins_with_all_or_a_digit_is_a_word_and_no_number(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits) as repl:
        for count, name in enumerate(("a.py", "b.py"), 1):
            repl.say(f"write {name} &")
            await repl.until(lambda count=count: len(repl.context.board.inbox.waiting()) == count)
        await repl.said("/no allow only what is in src", "denied")
        assert [one.number for one in repl.context.board.inbox.waiting()] == [2]
        await repl.said("/ok 2x", "expected a time")
        await repl.said("/ok 10m", "approved")
        await repl.quiet()
        await repl.said("/permissions", "1 │ session", "s left")
        assert any(
            "allow only what is in src" in text for one in repl.server.requests for text in one.tool_results
        )


async def test_an_approval_of_a_number_without_measure_is_told(tmp_path: Path) -> None:
    many = "1" * 5000
    async with open_repl(tmp_path, edits) as repl:
        repl.say("write a.py")
        await repl.until(lambda: bool(repl.context.board.inbox.waiting()))
        await repl.said(f"/ok {many}", "Waiting: 1.")
        await repl.said("/permissions remove " + many, "There is nothing to remove")
        await repl.said("/ok 1", "approved once")
        await repl.quiet()


async def test_an_answer_to_what_is_gone_is_refused(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits) as repl:
        repl.act(ApprovalAnswer("r", "d", "once"))
        await repl.shows("That request was already answered or withdrawn.")


async def test_standing_answers_settle_what_waits(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits) as repl:
        repl.say("write a.py")
        await repl.until(lambda: bool(repl.context.board.inbox.waiting()))
        await repl.said("/approve soon", "expected a time like")
        await repl.said("/approve 10m", "Approving everything until ")
        await repl.quiet()
        assert (repl.program.repo / "a.py").exists()
        (told,) = repl.front.controller.facts().extra
        assert told.startswith("approvals: all until ")
        repl.context.session.policy.approve("all", time.time() - 1)  # its time is over
        assert repl.front.controller.facts().extra == ()
        await repl.said("/approve", "Requests wait for your answer.")
        await repl.said("/approve none", "Denying every request.")
        await repl.turn("write b.py")
        assert not (repl.program.repo / "b.py").exists()
        await repl.said("/approve", "Denying every request. /approve ask stops it.")
        await repl.said("/approve ask", "Requests wait for your answer.")
        await repl.said("/approve", "Requests wait for your answer.")
        await repl.said("/approve all", "Approving everything this session.")
        await repl.said("/approve", "Approving everything this session. /approve ask stops it.")
        await repl.said("/approve 10m", "Approving everything until ")
        await repl.said("/approve", "Approving everything until ")
        await repl.said("/approve ask", "Requests wait for your answer.")
        repl.say("/mode edit")
        await repl.hints("mode: edit")
        await repl.said("/mode wild", "the mode is one of plan, ask, edit, auto; found 'wild'")
        await repl.said("/mode yolo", "yolo")
        await repl.said("/permissions log", "denied", "write_file")
        await repl.said("/permissions test git push", "ask")
        repl.say("/plan")
        await repl.hints("mode: plan")
        await repl.said("/permissions test git push", "deny: plan mode is read-only")
        await repl.said("/permissions test", "expected a command")
        await repl.said("/permissions zap", "expected list, log, test COMMAND or remove N")


async def test_sessions_are_listed_named_left_and_come_back(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda asked: reply(f"heard {asked.last_user_text}")) as repl:
        await repl.said("hello there", "heard hello there")
        await repl.quiet()
        first = repl.context.session.session_id
        await repl.said("/rename", "expected a name")
        repl.say("/rename parser work")
        await repl.hints("'parser work'")
        await repl.said("/resume", "there is no other session in this folder")
        await repl.said("/session resume", "there is no other session in this folder")
        await repl.said("/session resume zzzz", "there is no session 'zzzz'")
        await repl.said(f"/session resume {first[:6]}", "You are already in that session")
        await repl.said("/session zap", "expected list, resume ID")
        repl.say("/new")
        await repl.reopened(first)
        second = repl.context.session.session_id
        assert repl.paper.state.tasks == {}
        await repl.said("/session list", "parser work")
        offered = await repl.said("/session resume", f"{first} │")
        assert second not in offered.rpartition("❯ /session resume")[2]
        await repl.hints("which one? an ID (Tab completes it), a name, or last")
        assert repl.paper.line == "/session resume "
        repl.paper.line = ""
        await repl.said(f"/session delete {second}", "You are in this session. Leave it with /new")
        repl.say("/resume parser work")
        await repl.reopened(second)
        assert repl.context.session.session_id == first
        await repl.until(lambda: repl.paper.text().count("heard hello there") == 2, "the conversation again")
        assert repl.program.sessions() == [first], "the one in which nothing was said leaves no trace"


async def test_a_running_task_is_paused_by_leaving_and_goes_on_afterwards(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        slow = asked.last_user_text == "be slow"
        return reply("so slow " * 9, fault=Stall(after=3)) if slow else reply("on it goes")

    async with open_repl(tmp_path, model) as repl:
        first = repl.context.session.session_id
        repl.say("be slow")
        await repl.until(lambda: repl.paper.state.task(1).stream_block >= 0)
        await repl.said("/new", "Cancelled: task 1.")
        await repl.reopened(first)
        assert repl.paper.state.tasks == {}
        assert repl.paper.state.inbox == []
        second = repl.context.session.session_id
        repl.say("/resume last")
        await repl.reopened(second)
        await repl.said("/continue", "on it goes")


async def test_a_session_in_use_is_not_left_for_but_can_be_shown_and_copied(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("an answer")) as repl:
        first = await said_hello(repl)
        async with open_repl_in(repl.program, repl.server) as other:
            await other.said("other words", "an answer")
            await other.quiet()
            mine = other.context.session.session_id
            listed = await other.said("/session list", "hello (in use)", "▸ │")
            assert listed.count("in use") == 1, "the session the list is asked for in is in use, too"
            shown = await other.said(f"/resume {first}", "is open in another buddy")
            assert f"/session show {first} shows it" in shown
            assert f"/session fork {first} continues in a copy" in shown
            assert other.context.session.session_id == mine
            await other.said(f"/session show {first}", "▌ hello", "an answer", "not opened")
            other.say(f"/session fork {first}")
            await other.reopened(mine)
            assert text_of(other.context.board.task(1).history[0]) == "hello"
            assert other.context.session.session_id != first
        async with open_repl_in(repl.program, repl.server, "-r", first) as third:
            await third.shows("Open in another buddy (pid", f"/session fork {first} continues in a copy")
            assert third.context.board.task(1).history == []


async def test_fork_goes_on_in_a_copy_and_reset_empties(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("an answer")) as repl:
        first = await said_hello(repl)
        repl.say("/fork")
        await repl.reopened(first)
        assert len(repl.context.board.task(1).history) == 2
        await repl.said("/reset", "Conversation cleared")
        assert repl.context.board.task(1).history == []
        assert len(await repl.program.history(first)) == 2


async def test_export_writes_three_kinds_and_overwrites_nothing(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("an **answer**")) as repl:
        await repl.said("hello", "an answer")
        await repl.quiet()
        for name in ("talk.md", "talk.html", "talk.json"):
            await repl.said(f"/export {name}", f"written: {repl.program.repo / name}")
            assert "answer" in (repl.program.repo / name).read_text()
        assert json.loads((repl.program.repo / "talk.json").read_text())
        await repl.said("/export talk.md", "already exists; choose another name")
        await repl.said("/export talk.pdf", "expected a file ending in .md, .html or .json")
        await repl.said("/export no/where.md", "can't be written")


async def test_export_without_a_name_writes_to_the_private_folder_and_tells_the_full_path(
    tmp_path: Path,
) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("an **answer**")) as repl:
        await repl.said("hello", "an answer")
        await repl.quiet()
        shown = await repl.said("/export", "written: ", "read it before you share it", "/export FILE.html")
        folder = repl.program.repo / ".buddyx" / "exports"
        (written,) = folder.iterdir()
        assert f"written: {written}" in shown
        assert written.name.endswith(f"-{repl.context.session.session_id}.md")
        assert "an **answer**" in written.read_text()
        assert (folder.stat().st_mode & 0o777, written.stat().st_mode & 0o777) == (0o700, 0o600)
        assert not list(repl.program.repo.glob("buddy-*"))


async def test_export_follows_no_link_in_the_place_of_its_folder(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("an answer")) as repl:
        await repl.said("hello", "an answer")
        await repl.quiet()
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (repl.program.repo / ".buddyx" / "exports").symlink_to(elsewhere)
        await repl.said("/export", "exports is a symbolic link; expected a directory")
        assert list(elsewhere.iterdir()) == []


async def test_context_tells_how_many_results_came_from_the_cache(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        return reply(call("list_files", path=".")) if len(asked.tool_results) < 2 else reply("an answer")

    async with open_repl(tmp_path, model) as repl:
        await repl.said("hello", "an answer")
        await repl.quiet()
        await repl.said("/context", "tool results: 1 from the cache, 1 looked up")


async def test_status_context_cost_model_and_budget(tmp_path: Path) -> None:
    profiles = {
        "models": {
            "fast": {"model": "openai/fast", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "HOME"}
        }
    }
    async with open_repl(tmp_path, lambda _asked: reply("an answer"), settings=profiles) as repl:
        await repl.said("hello", "an answer")
        await repl.quiet()
        await repl.said("/status", "fake-model", "saved", "yes", "ask")
        await repl.said("/context", "system prompt and instructions", "you", "the model", "100.0k")
        await repl.said("/cost", "session: 15 tokens, no price is known")
        await repl.said("/model", "▸", "fast", "openai/fast")
        repl.say("/model fast")
        await repl.hints("model: fast")
        await repl.said("/model nonsense of a name", "expected one profile or model")
        await repl.said(
            "/model nosuch/thing", "the model was not changed: unknown provider 'nosuch'", "base_url"
        )
        await repl.said("/model groq/some-model", "no key for groq: set GROQ_API_KEY")
        await repl.said("/model", "▸ │ fast")
        await repl.said("/models claude sonnet", "anthropic/")
        await repl.said("/models zzzz", "no model has 'zzzz' in its name")
        await repl.said("/budget", "budget of the session: none; used so far:")
        await repl.said("/budget 200k tokens", "budget of the session: 200,000 tokens")
        await repl.said("/budget 200k", "expected a unit behind 200k: /budget 200k tokens")
        await repl.said("/budget x tokens", "expected a number of tokens like 200k, found 'x'")
        await repl.said("/budget off", "budget of the session: none")
        await repl.said("/budget 1 0.50", "expected an amount: /budget 5, /budget 200k tokens")
        await repl.said("/budget lots", "expected an amount of dollars, found 'lots'")
        await repl.said("/budget 5", "no known price, so a limit in dollars would not work; limit tokens")
        await repl.said("/budget @1 5000 tokens", "budget of task 1: 5,000 tokens")
        await repl.said("/budget @7 1", "there is no task 7")


async def test_diff_undo_redo_tools_trust_and_jobs(tmp_path: Path) -> None:
    edit = {"permissions": {"mode": "edit"}}
    async with open_repl(tmp_path, edits, settings=edit) as repl:
        await repl.said("/undo", "there is no edit to take back")
        await repl.said("/redo", "nothing was taken back")
        await repl.turn("overwrite new.py")
        assert (repl.program.repo / "new.py").exists()
        (repl.program.repo / "main.py").write_text("print(2)\n")
        await repl.said("/diff", "new, not yet in git: new.py", "new files", "+print(2)", "+x = 1")
        added = await asyncio.create_subprocess_exec("git", "add", "main.py", cwd=repl.program.repo)
        assert await added.wait() == 0
        await repl.said("/diff main.py", "+print(2)")  # what is staged has changed too
        await repl.said("/undo", "Undone: new.py (task 1's edit). /redo brings it back.")
        assert not (repl.program.repo / "new.py").exists()
        await repl.said("/redo", "Redone: new.py (task 1's edit).")
        assert (repl.program.repo / "new.py").exists()
        listed = await repl.said("/tools", "run_shell", "high", "Replace text in a file")
        assert "Change several files with one patch; all of it is applied or nothing.\n" in listed
        assert "*** Begin" not in listed
        await repl.said("/jobs", "no job is running")
        await repl.said("/memory", "AGENTS.md is read")
        await repl.said("/trust", f"{repl.program.repo} has no settings of its own")


async def test_compact_needs_something_to_summarise(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("short")) as repl:
        await repl.said("/compact", "Nothing to compact yet")
        await repl.said("/compact undo", "nothing was compacted")
        await repl.said("/compact show", "nothing is compacted")


async def test_how_it_is_set_up(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("I write it.")) as repl:
        shown = await repl.said("/config", "buddy.toml", "api.model", "fake-model")
        assert "display.theme" not in shown
        await repl.said("/config all", "display.theme")
        await repl.said("/doctor", "ok   │ buddy", "│ model:")
        await repl.said("/cd ../elsewhere", "This session belongs to", "cd ../elsewhere")
        await repl.said("/add-dir ../lib", "--add-dir ../lib")
        await repl.said("/login openai", "buddy login openai")
        await repl.said("/logout", "credentials.json")
        for name in ("skills", "agents", "hooks", "commands"):
            await repl.said(f"/{name}", "they are looked for in:")
        await repl.said("/mcp", "no MCP server is defined")
        await repl.said("/init the tests", "I write it.")
        assert "AGENTS.md" in repl.server.requests[0].last_user_text
        assert "Pay special attention to: the tests" in repl.server.requests[0].last_user_text


async def test_a_key_in_the_settings_is_not_shown(tmp_path: Path) -> None:
    settings = {"models": {"x": {"model": "openai/x", "api_key": "sk-abcdefghijklmnopqrstuvwx"}}}
    async with open_repl(tmp_path, [], settings=settings) as repl:
        shown = await repl.said("/config all", "models.x.api_key", "(set)")
        assert "abcdefghij" not in shown


async def test_the_screen_commands(tmp_path: Path) -> None:
    answer = "Look:\n\n```python\nx = 1\n```\n\nand\n\n```\ny = 2\n```\n"
    async with open_repl(tmp_path, lambda _asked: reply(answer)) as repl:
        await repl.said("/copy", "there is no answer to copy yet")
        await repl.said("hello", "y = 2")
        await repl.quiet()
        repl.say("/copy code")
        await repl.until(lambda: bool(repl.paper.raw))
        assert base64.b64decode(repl.paper.raw[0].removeprefix("\x1b]52;c;").rstrip("\a")) == b"y = 2\n"
        await repl.said("/copy everything", "expected /copy or /copy code")
        for name in ("clear", "redraw", "editor"):
            repl.say(f"/{name}")
        await repl.until(lambda: repl.paper.drawn == ["clear", "redraw", "edit"])
        await repl.said("/theme", "theme auto, color auto; themes: auto, dark, light, plain")
        await repl.said("/log", "there is no log")


async def test_an_own_command_is_shown_shared_and_ended(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("I see.")) as repl:
        cache = repl.context.board.parts.cache
        cache.set("list_files", (), ToolResult("x"), life_s=30, access=Access())
        await repl.said("!echo one; exit 3", "! echo one; exit 3", "exit 3")
        assert cache.statistics().entries == 0, "it may have changed anything"
        await repl.said("!!echo secret", "!! echo secret")
        await repl.until(
            lambda: [note.title for note in repl.context.board.notes.waiting] == ["! echo one; exit 3"]
        )
        repl.say("!echo at it; sleep 30")
        await repl.until(lambda: any(row.last_line == "at it" for row in repl.front.controller.facts().own))
        repl.act(Cancel())
        await repl.shows("cancelled")
        await repl.until(lambda: repl.front.controller.facts().own == ())
        await repl.said("what happened?", "I see.")
        told = repl.server.requests[0].last_user_text
        assert "I ran `echo one; exit 3` (exit code 3):]\none" in told
        assert "I ended it with Esc" in told
        assert "secret" not in told


async def test_esc_ends_what_was_begun_last(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("so slow " * 9, fault=Stall(after=3))) as repl:
        repl.say("be slow")
        await repl.until(lambda: repl.context.board.task(1).running)
        repl.say("!sleep 30")
        await repl.until(lambda: bool(repl.front.controller.facts().own))
        repl.act(Cancel())
        await repl.until(lambda: not repl.front.controller.facts().own)
        assert repl.context.board.task(1).running
        repl.act(Cancel())
        await repl.quiet()


async def test_leaving_ends_an_own_command(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        repl.say("!echo $$; sleep 30")
        await repl.until(lambda: any(row.last_line for row in repl.front.controller.facts().own))
        pid = int(repl.front.controller.facts().own[0].last_line)
    assert not Path(f"/proc/{pid}").exists()


async def test_what_is_sent_before_the_session_is_open_waits_in_order(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda asked: reply("ok")) as repl:
        context, opened = repl.context, repl.front.controller.dispatcher
        assert opened is not None
        repl.front.controller.close()
        repl.act(Prompt("first"))
        repl.act(Slash("/queue second"))
        repl.front.controller.open(opened)
        await repl.until(lambda: len(context.board.task(1).history) == 4)
        said = [text_of(one) for one in context.board.task(1).history if isinstance(one, UserMessage)]
        assert said == ["first", "second"]
        await asyncio.sleep(0)


async def test_a_failed_line_is_given_back_and_leaves_alone_what_was_typed_since(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda asked: reply("ok")) as repl:
        await repl.said("/kill 1", "task 1 is closed")
        await repl.said("@1 a long thought", "task 1 is closed; start another one with `TEXT &`")
        assert repl.paper.line == "@1 a long thought"
        repl.say("@1 another")
        repl.paper.line = "typed meanwhile"
        await repl.until(lambda: repl.paper.text().count("start another one with") == 2)
        assert repl.paper.line == "typed meanwhile"


async def test_a_prompt_of_the_command_line_is_sent_first(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda asked: reply("ok"), "explain", "this") as repl:
        await repl.server.arrived(1)
        await repl.quiet()
        assert repl.server.requests[0].last_user_text == "explain this"
        assert isinstance(repl.program, Program)


async def test_a_command_that_is_wrong_leaves_the_line_to_what_is_typed_next(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("an answer")) as repl:
        for line, told in {
            "/hlep me": "did you mean /help?",
            "/budget much": "expected an amount",
            "/model nonsense of a name": "expected one profile or model",
            "/fg 9": "there is no task 9",
        }.items():
            await repl.said(line, told)
            assert repl.paper.line == "", line
        await repl.said("/hlep me\nand more", "did you mean /help?")
        assert repl.paper.line == "/hlep me\nand more", "several lines are work to write again"


async def test_RU_B21_a_command_that_could_not_begin_leaves_no_hint_and_a_missing_path_is_named(
    tmp_path: Path,
) -> None:
    async with open_repl(tmp_path, []) as repl:
        await repl.said("/compact", "Nothing to compact yet")
        assert "summarising …" not in repl.paper.hints
        assert "there is no nosuch.py, and nothing changed" in await repl.said(
            "/diff nosuch.py", "since the last"
        )
        assert "there is no" not in await repl.said("/diff main.py", "nothing changed since the last commit")


async def test_RU_A3_a_command_is_echoed_and_new_says_what_happened(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("an answer")) as repl:
        shown = await repl.said("/status", "fake-model")
        assert "❯ /status\n" in shown
        await repl.turn("hello")
        before = repl.context.session.session_id
        shown = await repl.said("/new", f"a new session; /session resume {before} goes back")
        assert "❯ /new\n" in shown


async def test_RU_B21_config_reads_like_the_file_and_breaks_no_name(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        shown = await repl.said("/config all", "display.theme = ", "permissions.mode = ")
        assert "True" not in shown
        assert "None" not in shown
        assert "'" not in shown
        block = next(block for block in repl.paper.printed if "display.theme" in str(block))
        narrow = Painter(Look("mono", UNICODE, ansi=False)).ansi(block, 40)
        assert "display.enter_while_running =" in narrow


def test_WALK_18_the_list_of_all_commands_leaves_out_what_is_not_there() -> None:
    commands = builtin_commands()
    rows = [row for table in help_tables(commands) for row in table.rows]
    assert not [row for row in rows if "not in this version" in row[1]]
    assert len(rows) == len(commands.all())
