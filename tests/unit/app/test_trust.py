"""The question at the start: what a folder would put in force is named, nothing of it holds before the
answer, and the answer is about exactly what was shown."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from buddy.app.launch import LaunchContext, refresh_launch
from buddy.app.options import Options
from buddy.app.trust import FolderTrust, TrustAnswer
from buddy.config.loading import directories
from buddy.safety.paths import Boundary
from buddy.safety.trusted_files import TEXT_THING
from tests.fake_llm.script import Reply, reply
from tests.fake_llm.server import FakeLLM
from tests.support.hostile_repositories.repositories import write
from tests.support.program import Program
from tests.support.repl import open_repl_in
from tests.support.terminal import on_terminal

CODE = "x = 1\n"
TOML = '[agent]\nsystem_prompt = "from the project"\n'


def place_of(folder: Path, *, trusted: bool = False, home: bool = False) -> LaunchContext:
    repo = folder / "repo"
    (repo / ".git").mkdir(parents=True, exist_ok=True)
    where = directories({"HOME": str(repo if home else folder / "home")})
    boundary = Boundary(str(repo), str(repo), where.home, (), ())
    return LaunchContext(boundary, where, {}, is_repository=True, trusted=trusted)


def short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def test_a_folder_with_nothing_of_its_own_is_not_asked_about(tmp_path: Path) -> None:
    folder = FolderTrust(place_of(tmp_path))
    assert (folder.ask(), folder.is_open) == ("", False)
    assert folder.answer("").text.endswith("has no settings of its own: nothing to trust.")
    assert folder.answer("show").changes == "no"
    write(tmp_path / "repo", ".cursor/rules/x.md", "!`id`")
    write(tmp_path / "repo", ".claude/settings.json", '{"permissions": {"allow": ["Bash"]}}')
    assert FolderTrust(place_of(tmp_path)).ask() == ""


def test_what_would_be_in_force_is_named_with_its_kind_and_hash(tmp_path: Path) -> None:
    launch = place_of(tmp_path)
    write(tmp_path / "repo", "buddy.toml", TOML)
    write(tmp_path / "repo", ".buddyx/ext/deploy\x1b[2J.py", CODE)
    write(tmp_path / "repo", ".claude/commands/x.md", "hi\n")
    folder = FolderTrust(launch)
    asked = folder.ask()
    assert folder.is_open
    assert asked.split("\n")[:4] == [
        f"{tmp_path}/repo has settings of its own. They are ignored until you trust it:",
        f"  .buddyx/ext/deploy⟨U+001B⟩[2J.py (new): tools: code that buddy runs, sha256 {short(CODE)}",
        f"  .claude/commands (new): commands, sha256 {short(TEXT_THING)}",
        f"  buddy.toml (new): settings and rules, sha256 {short(TOML)}",
    ]
    assert "\x1b" not in asked
    shown = folder.answer("show").text
    assert '  | system_prompt = "from the project"' in shown
    assert "  | x = 1" in shown


def test_always_holds_until_the_content_changes_and_then_names_what_changed(tmp_path: Path) -> None:
    launch = place_of(tmp_path)
    write(tmp_path / "repo", "buddy.toml", TOML)
    folder = FolderTrust(launch)
    folder.ask()
    assert folder.answer("always") == TrustAnswer(
        f"{tmp_path}/repo is trusted until its settings change", "remembered"
    )
    assert not folder.is_open
    again = refresh_launch(launch, Options())
    assert again.trusted
    assert FolderTrust(again).ask() == ""
    assert FolderTrust(again).answer("").text == f"{tmp_path}/repo is trusted. /trust no ends that."
    write(tmp_path / "repo", "buddy.toml", TOML + "max_iterations = 3\n")
    changed = refresh_launch(launch, Options())
    assert not changed.trusted
    question = FolderTrust(changed).ask()
    assert question.startswith(f"The settings of {tmp_path}/repo changed since you trusted it.")
    assert "  buddy.toml (changed): settings and rules" in question
    assert "  | +max_iterations = 3" in FolderTrust(changed).answer("show").text


def test_no_is_not_asked_again_until_something_changes(tmp_path: Path) -> None:
    launch = place_of(tmp_path)
    write(tmp_path / "repo", "buddy.toml", TOML)
    folder = FolderTrust(launch)
    folder.ask()
    assert folder.answer("no").changes == "no"
    assert FolderTrust(launch).ask() == ""
    assert "has settings of its own" in FolderTrust(launch).answer("").text
    write(tmp_path / "repo", "buddy.toml", TOML + "\n")
    assert "buddy.toml (new)" in FolderTrust(launch).ask()


def test_no_takes_trust_back(tmp_path: Path) -> None:
    launch = place_of(tmp_path)
    write(tmp_path / "repo", "buddy.toml", TOML)
    folder = FolderTrust(launch)
    folder.ask()
    folder.answer("always")
    answer = FolderTrust(refresh_launch(launch, Options())).answer("no")
    assert answer.changes == "remembered"
    assert not refresh_launch(launch, Options()).trusted


@pytest.mark.parametrize("word", ["always", "once"])
def test_what_changed_since_it_was_shown_is_shown_before_it_is_trusted(tmp_path: Path, word: str) -> None:
    launch = place_of(tmp_path)
    write(tmp_path / "repo", "buddy.toml", TOML)
    folder = FolderTrust(launch)
    folder.ask()
    write(tmp_path / "repo", ".buddyx/ext/late.py", "import os\n")
    answer = folder.answer(word)
    assert answer.changes == "no"
    assert answer.text.startswith("Not trusted: it changed after it was shown. Read it again.\n")
    assert ".buddyx/ext/late.py (new): tools: code that buddy runs" in answer.text
    assert (folder.is_open, refresh_launch(launch, Options()).trusted) == (True, False)
    assert folder.answer(word).changes == {"always": "remembered", "once": "once"}[word]


def test_what_was_never_shown_is_shown_first(tmp_path: Path) -> None:
    write(tmp_path / "repo", "buddy.toml", TOML)
    answer = FolderTrust(place_of(tmp_path)).answer("always")
    assert (answer.changes, "buddy.toml (new)" in answer.text) == ("no", True)


def test_a_home_folder_is_trusted_for_this_run_at_most(tmp_path: Path) -> None:
    write(tmp_path / "repo", "buddy.toml", TOML)
    folder = FolderTrust(place_of(tmp_path, home=True))
    folder.ask()
    answer = folder.answer("always")
    assert answer.changes == "once"
    assert "not remembered: a home folder" in answer.text


def test_many_things_are_counted(tmp_path: Path) -> None:
    launch = place_of(tmp_path)
    for number in range(20):
        write(tmp_path / "repo", f".buddyx/ext/t{number:02}.py", "x = 1\n" * 300)
    folder = FolderTrust(launch)
    assert "  and 8 more; /trust show lists them" in folder.ask()
    assert "(100 more lines)" in folder.answer("show").text


def told(server: FakeLLM) -> str:
    """The system prompt of the newest request."""
    return next(text for role, text in server.requests[-1].turns if role == "system")


def script(_asked: object) -> Reply:
    return reply("Hello from the model.")


async def test_the_prompt_works_unanswered_and_trust_puts_the_configuration_in_force(tmp_path: Path) -> None:
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        write(program.repo, "buddy.toml", TOML)
        async with open_repl_in(program, server) as repl:
            await repl.shows("buddy.toml (new): settings and rules, sha256", "/trust once for this run")
            assert "is ignored until you trust" not in repl.paper.text()
            assert repl.front.controller.facts().untrusted
            await repl.turn("hi")
            assert "from the project" not in told(server)
            before = repl.paper.text()
            repl.say("/trust maybe")
            await repl.shows("expected show, once, always or no, found 'maybe'")
            repl.say("/trust once")
            await repl.shows("is trusted for this run")
            await repl.until(
                lambda: repl.front.controller.dispatcher is not None and repl.context.session.launch.trusted,
                "trusted",
            )
            assert repl.front.controller.facts().extra == ()
            assert repl.paper.text().count("Hello from the model.") == before.count("Hello from the model.")
            await repl.turn("and now")
            assert "from the project" in told(server)
            assert [text for role, text in server.requests[-1].turns if role == "user"] == ["hi", "and now"]


async def test_an_answer_while_a_task_runs_waits_for_the_next_session(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("word " * 400, delay_s=0.02)) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        write(program.repo, "buddy.toml", TOML)
        async with open_repl_in(program, server) as repl:
            await repl.shows("/trust once for this run")
            repl.say("hi")
            await repl.until(lambda: repl.context.board.tasks[1].running, "a turn")
            await repl.said(
                "/trust always", "task 1 is running, so this takes effect in the next session (/new)"
            )
            first = repl.context.session.session_id
            repl.say("/new")
            await repl.reopened(first)
            assert repl.context.session.launch.trusted


async def test_configuration_that_cannot_be_read_is_said_and_not_in_force(tmp_path: Path) -> None:
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        write(program.repo, "buddy.toml", "[agent\n")
        async with open_repl_in(program, server) as repl:
            await repl.shows("/trust once for this run")
            repl.say("/trust once")
            await repl.shows("the folder's settings are ignored")
            await repl.until(lambda: repl.front.controller.dispatcher is not None, "an open session")
            assert not repl.context.session.launch.trusted


@pytest.mark.slow
async def test_on_a_terminal_the_question_takes_no_key(tmp_path: Path) -> None:
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        write(program.repo, "buddy.toml", TOML)
        async with on_terminal(program) as terminal:
            await terminal.type("y, I think")
            await terminal.shows("buddy.toml (new): settings and rules")
            await terminal.until(lambda: terminal.input_line() == "y, I think")
            await terminal.line("")
            await terminal.has_shown("Hello from the model.")
            assert "from the project" not in told(server)
            await terminal.line("/trust always")
            await terminal.has_shown("settings change")
            await terminal.until(lambda: "not trusted" not in terminal.rows()[-1], "the footer without it")
            await terminal.line("again")
            await terminal.until(lambda: len(server.requests) == 2, "a second request")
            assert "from the project" in told(server)


def test_a_hook_is_asked_about_again_when_it_changes_and_a_skill_is_not(tmp_path: Path) -> None:
    launch, repo = place_of(tmp_path), tmp_path / "repo"
    hook = '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "%s"}]}]}}'
    write(repo, ".claude/settings.json", hook % "./check")
    write(repo, ".claude/skills/a/SKILL.md", "---\nname: a\n---\nx")
    folder = FolderTrust(launch)
    asked = folder.ask()
    assert ".claude/settings.json hooks/PreToolUse/1 (new): hooks: commands that buddy runs" in asked
    assert ".claude/skills (new): skills" in asked
    folder.answer("always")
    assert FolderTrust(launch).ask() == ""

    write(repo, ".claude/skills/a/SKILL.md", "---\nname: a\n---\ny")
    assert FolderTrust(launch).ask() == ""

    write(repo, ".claude/settings.json", hook % "./other")
    assert "hooks/PreToolUse/1 (changed)" in FolderTrust(launch).ask()


def test_a_script_of_hooks_is_asked_about_again_when_it_changes(tmp_path: Path) -> None:
    launch, repo = place_of(tmp_path), tmp_path / "repo"
    write(repo, ".claude/hooks/check.sh", "exit 0")
    folder = FolderTrust(launch)
    assert folder.ask()
    folder.answer("always")
    write(repo, ".claude/hooks/check.sh", "curl evil")
    assert ".claude/hooks/check.sh (changed): a script, which hooks may run" in FolderTrust(launch).ask()
