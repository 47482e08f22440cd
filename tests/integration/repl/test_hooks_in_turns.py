"""Hooks of settings files and of programs in a whole session: what they see, stop and change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from buddy.extend.hooks.protocol import CallbackHook, Hook
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.repl import open_repl, open_repl_in


def settings(path: Path, **events: list[dict[str, Any]]) -> None:
    """A settings file with hooks by event."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": events}))


def group(command: str, matcher: str = "", **more: Any) -> dict[str, Any]:
    return {"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}


def writes_once(asked: Asked) -> Reply:
    """Writes a.txt, then says so."""
    if not asked.tool_results:
        return reply(call("write_file", path="a.txt", content="first\n"))
    return reply("done")


async def test_a_hook_that_exits_with_2_denies_a_call_in_every_mode(tmp_path: Path) -> None:
    async with open_repl(tmp_path, writes_once, "--permission-mode", "yolo", "--i-know") as repl:
        log = tmp_path / "seen.json"
        hook = group(f"cat > {log}; echo not today >&2; exit 2", "Write|Edit")
        settings(repl.program.home / ".claude/settings.json", PreToolUse=[hook])
        await repl.turn("go")
        assert "not today" in repl.server.requests[1].tool_results[0]
        assert not (repl.program.repo / "a.txt").exists()
        seen = json.loads(log.read_text())
        assert seen["tool_name"] == "Write"
        assert seen["tool_input"] == {"file_path": "a.txt", "content": "first\n"}
        assert seen["hook_event_name"] == "PreToolUse"
        assert seen["permission_mode"] == "bypassPermissions"
        assert {"session_id", "transcript_path", "cwd", "tool_use_id"} <= set(seen)


async def test_a_hook_can_not_allow_what_asks(tmp_path: Path) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
    async with open_repl(tmp_path, writes_once) as repl:
        hook = group(f"echo '{json.dumps(answer)}'")
        settings(repl.program.home / ".claude/settings.json", PreToolUse=[hook], PermissionRequest=[hook])
        repl.say("go")
        await repl.until(lambda: bool(repl.context.board.inbox.waiting()), "a request")
        assert not (repl.program.repo / "a.txt").exists()
        repl.say("/no")
        await repl.quiet()


async def test_a_changed_input_is_judged_and_shown_and_run(tmp_path: Path) -> None:
    changed = {"file_path": "../outside.txt", "content": "changed\n"}
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": changed}}
    async with open_repl(tmp_path, writes_once, "--permission-mode", "edit") as repl:
        hook = group(f"echo '{json.dumps(answer)}'", "Write")
        settings(repl.program.home / ".claude/settings.json", PreToolUse=[hook])
        repl.say("go")
        await repl.until(lambda: bool(repl.context.board.inbox.waiting()), "a request")
        (request,) = repl.context.board.inbox.waiting()
        assert "outside the workspace" in request.event.reason
        assert json.loads(request.event.call.arguments) == changed
        assert not (tmp_path / "outside.txt").exists()
        repl.say("/ok")
        await repl.quiet()
        assert (tmp_path / "outside.txt").read_text() == "changed\n"
        assert not (repl.program.repo / "a.txt").exists()


async def test_words_of_a_hook_stand_below_the_result(tmp_path: Path) -> None:
    answer = {"decision": "block", "reason": "run the linter", "systemMessage": "linter missing\x1b[2J"}
    async with open_repl(tmp_path, writes_once, "--permission-mode", "edit") as repl:
        hook = group(f"echo '{json.dumps(answer)}'", "Edit|Write")
        settings(repl.program.home / ".claude/settings.json", PostToolUse=[hook])
        await repl.turn("go")
        assert "[from a PostToolUse hook: run the linter]" in repl.server.requests[1].tool_results[0]
        assert "linter missing" in repl.paper.text()
        assert "\x1b[2J" not in repl.paper.text()


async def test_prompts_are_seen_refused_and_given_context(tmp_path: Path) -> None:
    script = 'read line; case "$line" in *secret*) echo no secrets >&2; exit 2;; esac; echo it is Monday'
    async with open_repl(tmp_path, [reply("hello")]) as repl:
        mine = repl.program.home / ".claude/settings.json"
        settings(mine, UserPromptSubmit=[group(script)], SessionStart=[group("echo started")])
        await repl.said("a secret", "a hook refused the prompt: no secrets")
        await repl.quiet()
        assert repl.server.requests == []
        await repl.turn("what day is it")
        texts = [text for role, text in repl.server.requests[0].turns if role == "user"]
        assert any("it is Monday" in text for text in texts)
        assert "what day is it" in texts[-1]
        assert not any("secret" in text for text in texts)


async def test_a_stop_hook_sends_the_model_back_to_work(tmp_path: Path) -> None:
    script = "grep -q '\"stop_hook_active\":true' && exit 0; echo run the tests first >&2; exit 2"
    async with open_repl(tmp_path, [reply("done"), reply("tests ran")]) as repl:
        settings(repl.program.home / ".claude/settings.json", Stop=[group(script)])
        await repl.turn("go")
        assert len(repl.server.requests) == 2
        assert "run the tests first" in repl.server.requests[1].last_user_text


async def test_a_hook_that_always_blocks_does_not_keep_a_turn_for_good(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("done")) as repl:
        settings(repl.program.home / ".claude/settings.json", Stop=[group("echo more >&2; exit 2")])
        await repl.turn("go")
        assert len(repl.server.requests) == 9
        assert "it stops now" in repl.paper.text()


async def test_a_hook_that_hangs_and_forks_asks_the_person_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 987 & echo $! >> {pids}; (setsid sleep 987 & echo $! >> {pids}); sleep 987"
    async with open_repl(tmp_path, writes_once, "--permission-mode", "edit") as repl:
        hook = group(script, timeout=0.3)
        settings(repl.program.home / ".claude/settings.json", PreToolUse=[hook])
        repl.say("go")
        await repl.until(lambda: bool(repl.context.board.inbox.waiting()), "a request")
        (request,) = repl.context.board.inbox.waiting()
        assert "gave no answer (it was ended after 0.3 s)" in request.event.reason
        started = [int(pid) for pid in pids.read_text().split()]
        await repl.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), "no process")
        repl.say("/no")
        await repl.quiet()


async def test_hooks_of_a_project_wait_for_trust_and_for_each_change(tmp_path: Path) -> None:
    async with FakeLLM(writes_once) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        file = program.repo / ".claude/settings.json"
        settings(file, PreToolUse=[group("touch ran; exit 2")])
        async with open_repl_in(program, server, "--permission-mode", "edit") as repl:
            await repl.turn("go")
            assert (program.repo / "a.txt").exists()
            assert not (program.repo / "ran").exists()
            await repl.said("/hooks", "not active: this folder is not trusted")
        async with open_repl_in(program, server, "--permission-mode", "edit", "--trust") as repl:
            await repl.turn("go again")
            assert (program.repo / "ran").exists()
            (program.repo / "ran").unlink()
            settings(file, PreToolUse=[group("touch ran;  exit 2")])
            await repl.turn("and again")
            assert not (program.repo / "ran").exists()
            await repl.said("/hooks", "it changed since you trusted this folder")


async def test_a_callback_of_a_program_answers_like_a_command(tmp_path: Path) -> None:
    seen: list[Mapping[str, Any]] = []

    async def deny(fields: Mapping[str, Any], call_id: str) -> Mapping[str, Any]:
        seen.append({**fields, "id": call_id})
        return {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "by SDK"}}

    async with open_repl(tmp_path, writes_once, "--permission-mode", "edit") as repl:
        hook = Hook("PreToolUse", CallbackHook(deny), "Write", scope="callback", source="SDK")
        remove = repl.context.session.extensions.hooks.add(hook)
        await repl.said("/hooks", "PreToolUse Write", "callback")
        await repl.turn("go")
        assert "by SDK" in repl.server.requests[1].tool_results[0]
        assert seen[0]["tool_use_id"] == seen[0]["id"]
        remove()
        assert not repl.context.session.extensions.hooks.handles("PreToolUse")


async def test_a_hook_that_says_continue_false_ends_the_turn(tmp_path: Path) -> None:
    answer = json.dumps({"continue": False, "stopReason": "the build is broken"})
    async with open_repl(tmp_path, writes_once, "--permission-mode", "edit") as repl:
        settings(repl.program.home / ".claude/settings.json", PostToolUse=[group(f"echo '{answer}'")])
        await repl.turn("go")
        assert len(repl.server.requests) == 1
        assert "the build is broken" in repl.paper.text()


async def test_a_hook_hears_of_every_file_of_a_patch(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: fine.txt\n+x\n*** Add File: guarded.txt\n+x\n*** End Patch\n"

    def script(asked: Asked) -> Reply:
        return reply("done") if asked.tool_results else reply(call("apply_patch", patch=patch))

    hook = group('grep -q \'"file_path":"guarded\' && { echo guarded >&2; exit 2; }; exit 0', "Edit|Write")
    settings_of = {"api": {"model": "openai/gpt-5.2"}}
    async with open_repl(tmp_path, script, "--permission-mode", "edit", settings=settings_of) as repl:
        settings(repl.program.home / ".claude/settings.json", PreToolUse=[hook])
        await repl.turn("go")
        assert "a hook denied it: guarded" in repl.server.requests[1].tool_results[0]
        assert not (repl.program.repo / "fine.txt").exists()


async def test_a_hook_that_floods_is_ended_and_its_call_is_asked_about(tmp_path: Path) -> None:
    async with open_repl(tmp_path, writes_once, "--permission-mode", "edit") as repl:
        hook = group("head -c 100000000 /dev/zero | tr '\\0' x; exit 0")
        settings(repl.program.home / ".claude/settings.json", PreToolUse=[hook])
        repl.say("go")
        await repl.until(lambda: bool(repl.context.board.inbox.waiting()), "a request")
        (request,) = repl.context.board.inbox.waiting()
        assert "gave no answer (it was ended: output limit)" in request.event.reason
        repl.say("/no")
        await repl.quiet()


async def test_the_end_of_a_session_runs_its_hooks(tmp_path: Path) -> None:
    ended = tmp_path / "ended.json"
    async with open_repl(tmp_path, [reply("hello")]) as repl:
        settings(repl.program.home / ".claude/settings.json", SessionEnd=[group(f"cat > {ended}")])
        await repl.turn("hi")
    assert json.loads(ended.read_text())["hook_event_name"] == "SessionEnd"


async def test_a_hook_forbids_compaction(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("hello")) as repl:
        hook = group("echo keep it >&2; exit 2", "manual")
        settings(repl.program.home / ".claude/settings.json", PreCompact=[hook])
        await repl.turn("one")
        await repl.turn("two")
        await repl.said("/compact", "Not compacted: keep it")


async def test_subagents_have_events_of_their_own(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def script(asked: Asked) -> Reply:
        if "You are a subagent" in asked.turns[-1][1]:
            return reply("part done")
        if not asked.tool_results:
            return reply(call("delegate", task="a part", background=False))
        return reply("done")

    async with open_repl(tmp_path, script, "--permission-mode", "edit") as repl:
        command = f"cat >> {log}; echo >> {log}"
        events = {
            name: [group(command)] for name in ("SubagentStart", "SubagentStop", "Stop", "UserPromptSubmit")
        }
        settings(repl.program.home / ".claude/settings.json", **events)
        await repl.turn("go")
    seen = [json.loads(line) for line in log.read_text().splitlines() if line]
    assert [one["hook_event_name"] for one in seen] == [
        "UserPromptSubmit",
        "SubagentStart",
        "SubagentStop",
        "Stop",
    ]
    assert seen[1]["agent_type"] == "general-purpose"
