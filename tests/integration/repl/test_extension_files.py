"""Skills, command files and subagent files of other agents in a whole session."""

from __future__ import annotations

from pathlib import Path

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Desk
from tests.support.sitting_desk import seated, sitting

SKILL = "---\nname: release-notes\ndescription: Writes release notes\n---\nList the changes of $ARGUMENTS.\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_a_skill_of_the_person_is_in_the_prompt_and_read_by_the_tool(tmp_path: Path) -> None:
    def script(asked: Asked) -> Reply:
        if asked.turns[-1][0] == "user":
            return reply(call("skill", arguments='{"name": "release-notes", "arguments": "v2"}'))
        return reply("done")

    async with sitting(tmp_path, script) as desk:
        write(desk.desk.home / ".claude/skills/release-notes/SKILL.md", SKILL)
        write(desk.desk.home / ".claude/skills/release-notes/style.md", "short")
        await desk.turn("write the notes")
        first, second = desk.server.requests
        assert (
            "- release-notes: Writes release notes (~/.claude/skills/release-notes/SKILL.md)"
            in first.turns[0][1]
        )
        assert "skill" in first.tool_names
        assert "List the changes of v2." in second.turns[-1][1]
        assert "style.md" in second.turns[-1][1]


async def test_a_skill_called_by_name_is_sent_with_its_words(tmp_path: Path) -> None:
    async with sitting(tmp_path, [reply("one"), reply("two")]) as desk:
        write(desk.desk.home / ".claude/skills/release-notes/SKILL.md", SKILL)
        await desk.turn("/release-notes v2")
        await desk.turn("/skill:release-notes v3")
        assert "List the changes of v2." in desk.server.requests[0].last_user_text
        assert "List the changes of v3." in desk.server.requests[1].last_user_text
        assert "List the changes" not in desk.paper.text()


async def test_a_command_file_runs_its_commands_and_attaches_its_files(tmp_path: Path) -> None:
    body = "---\ndescription: Review\n---\nLook at $1 (${2:-gently}).\n!`echo made by echo`\n@main.py\n"
    async with sitting(tmp_path, [reply("fine")]) as desk:
        write(desk.desk.home / ".claude/commands/git/review.md", body)
        await desk.turn("/git:review main.py")
        text = desk.server.requests[0].last_user_text
        assert "Look at main.py (gently)." in text
        assert "made by echo" in text
        assert "print(1)" in text
        listed = await desk.said("/commands", "~/.claude/commands/git/review.md")
        assert "/git:review" in listed


async def test_a_command_of_a_file_asks_like_any_other(tmp_path: Path) -> None:
    async with sitting(tmp_path, [reply("fine")]) as desk:
        write(desk.desk.home / ".claude/commands/danger.md", "!`touch made`\n")
        desk.say("/danger")
        await desk.until(lambda: bool(desk.context.board.inbox.waiting()), "a request")
        await desk.said("/no", "did not run")
        assert not (desk.desk.repo / "made").exists()
        assert desk.server.requests == []


async def test_a_file_of_others_does_not_attach_secrets_unasked(tmp_path: Path) -> None:
    async with sitting(tmp_path, [reply("fine")]) as desk:
        write(desk.desk.home / ".ssh/id_rsa", "the secret key")
        write(desk.desk.repo / ".env", "TOKEN=hidden")
        key = desk.desk.home / ".ssh/id_rsa"
        write(desk.desk.home / ".claude/commands/leak.md", f"Look at @main.py @.env @{key} $1\n")
        desk.say("/leak @/etc/passwd")
        for number in (1, 2, 3):
            await desk.until(
                lambda one=number: [ask.number for ask in desk.context.board.inbox.waiting()] == [one],
                "a request",
            )
            desk.say(f"/no {number}")
        await desk.quiet()
        await desk.until(lambda: bool(desk.server.requests), "the prompt")
        text = desk.server.requests[0].last_user_text
        assert "print(1)" in text
        assert "the secret key" not in text
        assert "hidden" not in text
        assert "root:" not in text
        assert "was not attached" in desk.paper.text()


async def test_allowed_tools_hold_for_one_turn_and_only_in_the_persons_own_files(tmp_path: Path) -> None:
    body = "---\nallowed-tools: Bash(touch made:*), Bash\n---\n!`touch made`\n"
    async with FakeLLM(lambda _asked: reply("fine")) as server:
        desk = Desk(tmp_path, server.url)
        desk.files(main__py="print(1)\n")
        write(desk.home / ".claude/commands/mine.md", body)
        write(desk.home / ".claude/commands/other.md", "---\nallowed-tools: Bash\n---\n!`touch other`\n")
        write(desk.repo / ".claude/commands/theirs.md", body.replace("made", "taken"))
        async with seated(desk, server, "--trust") as sat:
            await sat.turn("/mine")
            assert (desk.repo / "made").exists()
            assert sat.context.board.task(1).call_limits.rules == ()
            for line, made in (("/other", "other"), ("/theirs", "taken")):
                sat.say(line)
                await sat.until(lambda: bool(sat.context.board.inbox.waiting()), "a request")
                await sat.said("/no", "did not run")
                assert not (desk.repo / made).exists()


async def test_files_of_a_project_wait_for_trust_and_no_file_takes_a_built_in_name(tmp_path: Path) -> None:
    async with sitting(tmp_path, [reply("fine")]) as desk:
        write(desk.desk.repo / ".claude/commands/evil.md", "!`touch made`")
        write(desk.desk.home / ".claude/commands/help.md", "not help")
        await desk.said("/evil", "can't be used", "not trusted")
        await desk.said("/commands", "untrusted", "shadowed", "/help is a command of buddy")
        await desk.said("/help", "/quit")
        assert not (desk.desk.repo / "made").exists()
        assert desk.server.requests == []


async def test_trusted_files_of_a_project_come_before_the_persons(tmp_path: Path) -> None:
    async with FakeLLM([reply("fine"), reply("again")]) as server:
        desk = Desk(tmp_path, server.url)
        desk.files(main__py="print(1)\n")
        write(desk.repo / ".claude/commands/which.md", "the project's")
        write(desk.home / ".claude/commands/which.md", "the person's")
        async with seated(desk, server, "--trust") as sat:
            await sat.turn("/which")
            assert "the project's" in server.requests[0].last_user_text
            await sat.said("/commands", "shadowed", ".claude/commands/which.md comes first")
            (desk.repo / ".claude/commands/which.md").write_text("changed meanwhile")
            await sat.turn("/which")
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

    async with sitting(tmp_path, script, "--permission-mode", "edit") as desk:
        write(desk.desk.home / ".claude/agents/reviewer.md", agent)
        await desk.turn("go")
        sub = next(one for one in desk.server.requests if "You review" in one.turns[0][1])
        assert sorted(sub.tool_names) == ["read_file", "write_file"]
        assert not (desk.desk.repo / "made.txt").exists()
        await desk.said("/agents", "reviewer", "~/.claude/agents/reviewer.md")
