"""Skills, command files and subagent files of other agents in a whole session."""

from __future__ import annotations

from pathlib import Path

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.repl import open_repl, open_repl_in

SKILL = "---\nname: release-notes\ndescription: Writes release notes\n---\nList the changes of $ARGUMENTS.\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_a_skill_of_the_person_is_in_the_prompt_and_read_by_the_tool(tmp_path: Path) -> None:
    def script(asked: Asked) -> Reply:
        if asked.turns[-1][0] == "user":
            return reply(call("skill", arguments='{"name": "release-notes", "arguments": "v2"}'))
        return reply("done")

    async with open_repl(tmp_path, script) as repl:
        write(repl.program.home / ".claude/skills/release-notes/SKILL.md", SKILL)
        write(repl.program.home / ".claude/skills/release-notes/style.md", "short")
        await repl.turn("write the notes")
        first, second = repl.server.requests
        assert "- release-notes: Writes release notes\n" in first.turns[0][1]
        assert "skill" in first.tool_names
        assert "List the changes of v2." in second.turns[-1][1]
        assert "style.md" in second.turns[-1][1]


async def test_a_skill_called_by_name_is_sent_with_its_words(tmp_path: Path) -> None:
    async with open_repl(tmp_path, [reply("one"), reply("two")]) as repl:
        write(repl.program.home / ".claude/skills/release-notes/SKILL.md", SKILL)
        await repl.turn("/release-notes v2")
        await repl.turn("/skill:release-notes v3")
        assert "List the changes of v2." in repl.server.requests[0].last_user_text
        assert "List the changes of v3." in repl.server.requests[1].last_user_text
        assert "List the changes" not in repl.paper.text()


async def test_a_command_file_runs_its_commands_and_attaches_its_files(tmp_path: Path) -> None:
    body = "---\ndescription: Review\n---\nLook at $1 (${2:-gently}).\n!`echo made by echo`\n@main.py\n"
    async with open_repl(tmp_path, [reply("fine")]) as repl:
        write(repl.program.home / ".claude/commands/git/review.md", body)
        await repl.turn("/git:review main.py")
        text = repl.server.requests[0].last_user_text
        assert "Look at main.py (gently)." in text
        assert "made by echo" in text
        assert "print(1)" in text
        listed = await repl.said("/commands", "~/.claude/commands/git/review.md")
        assert "/git:review" in listed


async def test_a_command_of_a_file_asks_like_any_other(tmp_path: Path) -> None:
    async with open_repl(tmp_path, [reply("fine")]) as repl:
        write(repl.program.home / ".claude/commands/danger.md", "!`touch made`\n")
        repl.say("/danger")
        await repl.until(lambda: bool(repl.context.board.inbox.waiting()), "a request")
        await repl.said("/no", "did not run")
        assert not (repl.program.repo / "made").exists()
        assert repl.server.requests == []


async def test_a_file_of_others_does_not_attach_secrets_unasked(tmp_path: Path) -> None:
    async with open_repl(tmp_path, [reply("fine")]) as repl:
        write(repl.program.home / ".ssh/id_rsa", "the secret key")
        write(repl.program.repo / ".env", "TOKEN=hidden")
        key = repl.program.home / ".ssh/id_rsa"
        write(repl.program.home / ".claude/commands/leak.md", f"Look at @main.py @.env @{key} $1\n")
        repl.say("/leak @/etc/passwd")
        for number in (1, 2, 3):
            await repl.until(
                lambda one=number: [ask.number for ask in repl.context.board.inbox.waiting()] == [one],
                "a request",
            )
            repl.say(f"/no {number}")
        await repl.quiet()
        await repl.until(lambda: bool(repl.server.requests), "the prompt")
        text = repl.server.requests[0].last_user_text
        assert "print(1)" in text
        assert "the secret key" not in text
        assert "hidden" not in text
        assert "root:" not in text
        assert "was not attached" in repl.paper.text()


async def test_allowed_tools_hold_for_one_turn_and_only_in_the_persons_own_files(tmp_path: Path) -> None:
    body = "---\nallowed-tools: Bash(touch made:*), Bash\n---\n!`touch made`\n"
    async with FakeLLM(lambda _asked: reply("fine")) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        write(program.home / ".claude/commands/mine.md", body)
        write(program.home / ".claude/commands/other.md", "---\nallowed-tools: Bash\n---\n!`touch other`\n")
        write(program.repo / ".claude/commands/theirs.md", body.replace("made", "taken"))
        async with open_repl_in(program, server, "--trust") as repl:
            await repl.turn("/mine")
            assert (program.repo / "made").exists()
            assert repl.context.board.task(1).call_limits.rules == ()
            for line, made in (("/other", "other"), ("/theirs", "taken")):
                repl.say(line)
                await repl.until(lambda: bool(repl.context.board.inbox.waiting()), "a request")
                await repl.said("/no", "did not run")
                assert not (program.repo / made).exists()


async def test_files_of_a_project_wait_for_trust_and_no_file_takes_a_built_in_name(tmp_path: Path) -> None:
    async with open_repl(tmp_path, [reply("fine")]) as repl:
        write(repl.program.repo / ".claude/commands/evil.md", "!`touch made`")
        write(repl.program.home / ".claude/commands/help.md", "not help")
        await repl.said("/evil", "can't be used", "not trusted")
        await repl.said("/commands", "untrusted", "shadowed", "/help is a command of buddy")
        await repl.said("/help", "/quit")
        assert not (repl.program.repo / "made").exists()
        assert repl.server.requests == []


async def test_trusted_files_of_a_project_come_before_the_persons(tmp_path: Path) -> None:
    async with FakeLLM([reply("fine"), reply("again")]) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        write(program.repo / ".claude/commands/which.md", "the project's")
        write(program.home / ".claude/commands/which.md", "the person's")
        async with open_repl_in(program, server, "--trust") as repl:
            await repl.turn("/which")
            assert "the project's" in server.requests[0].last_user_text
            await repl.said("/commands", "shadowed", ".claude/commands/which.md comes first")
            (program.repo / ".claude/commands/which.md").write_text("changed meanwhile")
            await repl.turn("/which")
            assert "changed meanwhile" in server.requests[1].last_user_text


async def test_a_subagent_file_gives_prompt_tools_and_a_stricter_mode(tmp_path: Path) -> None:
    agent = (
        "---\nname: reviewer\ndescription: Reviews\ntools: Read, Write\npermissionMode: plan\n---\n"
        "You review and change nothing.\n"
    )

    def script(asked: Asked) -> Reply:
        if "You review" in asked.turns[0][1]:
            if asked.turns[-1][0] == "user":
                return reply(call("write_file", path="made.txt", content="x"))
            return reply("it was denied")
        if asked.turns[-1][0] == "user":
            return reply(call("delegate", task="review it", agent="reviewer", background=False))
        return reply("done")

    async with open_repl(tmp_path, script, "--permission-mode", "edit") as repl:
        write(repl.program.home / ".claude/agents/reviewer.md", agent)
        await repl.turn("go")
        sub = next(one for one in repl.server.requests if "You review" in one.turns[0][1])
        assert sorted(sub.tool_names) == ["read_file", "write_file"]
        assert not (repl.program.repo / "made.txt").exists()
        await repl.said("/agents", "reviewer", "~/.claude/agents/reviewer.md")
