"""Hooks and filters a repository brings: off until the folder is trusted, asked about in every mode but yolo;
what a checkout or a stash would write is judged file by file."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.agent.display import Plain
from buddy.agent.tool import Tool, ToolError
from buddy.app.policy import Judge
from buddy.safety.paths import Boundary
from buddy.safety.policy.decide import ASK, MODES, Approvals, Mode, Verdict, judge
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import RuleSet
from buddy.tools.git import git_diff, git_show
from buddy.tools.git_write import git_add, git_checkout, git_commit, git_stash
from buddy.workspace.git.config import Setting, guarded_options
from buddy.workspace.git.run import find_repository
from buddy.workspace.git.survey import UNKNOWN
from tests.security.test_git_hostile import MARK, config, git, program, repository
from tests.support.tool_project import tool_project

PROTECTED = (
    ".vscode/tasks.json",
    ".claude/settings.json",
    ".envrc",
    "buddy.toml",
    ".husky/pre-commit",
    ".mcp.json",
)


def facts_of_call(folder: Path, tool: Tool, arguments: str, cwd: str = "") -> Facts:
    boundary = Boundary(str(folder), str(folder / cwd) if cwd else str(folder), str(folder.parent / "home"))
    return Judge(boundary).facts(tool, tool.decode(arguments))


def decide(facts: Facts, mode: Mode, approvals: Approvals = ASK) -> Verdict:
    return judge(facts, mode, RuleSet(), (), approvals, trusted=True, now=0.0)


def with_evil_branch(folder: Path, *names: str) -> Path:
    """A clean repository whose branch `evil` holds further files."""
    repository(folder)
    git(folder, "reset", "-q", "--hard")
    (folder / "new.txt").unlink()
    git(folder, "checkout", "-q", "-b", "evil")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("evil\n")
    git(folder, "add", "-f", ".")
    git(folder, "commit", "--allow-empty", "-qm", "evil")
    git(folder, "checkout", "-q", "main")
    return folder


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROTECTED)
def test_RU_M1_a_checkout_of_protected_names_asks_in_every_mode(
    tmp_path: Path, name: str, mode: Mode
) -> None:
    folder = with_evil_branch(tmp_path / "work", name)
    top = name.split("/")[0]

    for arguments in (
        f'{{"ref": "evil", "paths": ["{top}"]}}',
        '{"ref": "evil"}',
        '{"ref": "evil", "paths": ["."]}',
    ):
        verdict = decide(facts_of_call(folder, git_checkout, arguments), mode, Approvals("all"))
        assert verdict.decision == ("deny" if mode == "plan" else "ask"), arguments
        assert verdict.floor


@pytest.mark.parametrize(
    ("arguments", "decision"),
    [
        ('{"ref": "plain"}', "allow"),
        ('{"ref": "evil", "paths": ["a.txt"]}', "allow"),
        ('{"ref": "evil"}', "ask"),
        ('{"ref": "evil~1"}', "allow"),
        ('{"ref": "@{-1}"}', "ask"),
        ('{"ref": "evil^{commit}"}', "ask"),
        ('{"ref": "new", "create": true}', "allow"),
        ('{"ref": "nowhere"}', "ask"),
        ('{"ref": "evil", "paths": ["."]}', "ask"),
        ('{"ref": "evil", "paths": [".VSCODE", "a.txt"]}', "allow"),  # no such path: nothing is written
        ('{"ref": "tagged"}', "ask"),
        ('{"ref": "topic"}', "ask"),  # a remote branch git makes a local one of
        ('{"paths": ["a.txt"]}', "allow"),
        ('{"ref": "HEAD"}', "allow"),
        ('{"ref": "two-meanings"}', "ask"),  # a harmless tag, and the branch that checkout prefers
        ('{"ref": "two-meanings", "paths": ["."]}', "ask"),
        ('{"ref": "main...evil"}', "ask"),
        ('{"ref": "evil@{0}~0"}', "ask"),
    ],
)
def test_RU_M1_what_a_checkout_brings_decides(tmp_path: Path, arguments: str, decision: str) -> None:
    folder = with_evil_branch(tmp_path / "work", ".vscode/tasks.json")
    git(folder, "branch", "plain", "HEAD~1")
    git(folder, "tag", "tagged", "evil")
    git(folder, "tag", "two-meanings", "main")
    git(folder, "branch", "two-meanings", "evil")
    git(folder, "update-ref", "refs/remotes/origin/topic", "evil")

    assert decide(facts_of_call(folder, git_checkout, arguments), "edit").decision == decision


def test_RU_M1_a_file_brought_back_from_the_index_is_seen(tmp_path: Path) -> None:
    folder = with_evil_branch(tmp_path / "work")
    (folder / "buddy.toml").write_text("one\n")
    git(folder, "add", "buddy.toml")
    (folder / "buddy.toml").write_text("two\n")

    assert decide(facts_of_call(folder, git_checkout, '{"paths": ["buddy.toml"]}'), "yolo").decision == "ask"
    assert decide(facts_of_call(folder, git_checkout, '{"paths": ["."]}'), "edit").floor
    assert decide(facts_of_call(folder, git_stash, "{}"), "edit").floor


@pytest.mark.parametrize("action", ["pop", "apply"])
@pytest.mark.parametrize("untracked", [True, False])
def test_RU_M1_a_stash_that_holds_protected_names_asks(tmp_path: Path, action: str, untracked: bool) -> None:
    folder = with_evil_branch(tmp_path / "work")
    (folder / ".vscode").mkdir()
    (folder / ".vscode" / "tasks.json").write_text("evil")
    if not untracked:
        git(folder, "add", "-f", ".vscode")
    git(folder, "stash", "push", "--include-untracked")
    (folder / "a.txt").write_text("later\n")
    git(folder, "stash", "push")

    harmless = facts_of_call(folder, git_stash, f'{{"action": "{action}"}}')
    evil = facts_of_call(folder, git_stash, f'{{"action": "{action}", "index": 1}}')
    assert (decide(harmless, "edit").decision, decide(evil, "yolo").decision) == ("allow", "ask")
    assert decide(facts_of_call(folder, git_stash, '{"action": "list"}'), "edit").decision == "allow"


def test_RU_M1_what_cannot_be_known_asks(tmp_path: Path) -> None:
    folder = with_evil_branch(tmp_path / "work")
    verdict = decide(facts_of_call(folder, git_checkout, '{"ref": "nowhere"}'), "edit")

    assert (verdict.decision, verdict.reason) == ("ask", UNKNOWN)


def test_RU_M1_looking_runs_nothing_of_the_repository(tmp_path: Path) -> None:
    folder = with_evil_branch(tmp_path / "work", "c.txt")
    evil = program(folder)
    config(
        folder, ("core.fsmonitor", str(evil)), ("filter.evil.clean", str(evil)), ("diff.external", str(evil))
    )
    config(folder, ("filter.evil.process", str(evil)), ("core.hooksPath", str(folder)))
    (folder / "a.txt").write_text("changed\n")

    for arguments in ('{"ref": "evil"}', '{"paths": ["."]}', '{"ref": "evil", "paths": ["."]}'):
        facts_of_call(folder, git_checkout, arguments)
    assert not (tmp_path / MARK).exists()


HOOKS = (
    "pre-commit",
    "commit-msg",
    "post-commit",
    "post-checkout",
    "post-index-change",
    "prepare-commit-msg",
)


@pytest.mark.parametrize("trusted", [True, False])
async def test_RU_H9_hooks_and_filters_run_only_where_the_folder_is_trusted(
    tmp_path: Path, trusted: bool
) -> None:
    async with tool_project(tmp_path, trusted=trusted) as project:
        folder = repository(project.root)
        config(folder, ("user.name", "A"), ("user.email", "a@example.org"))
        evil = program(folder)
        for name in HOOKS:
            program(folder / ".git" / "hooks", name)
        config(folder, ("filter.evil.clean", str(evil)), ("filter.evil.smudge", str(evil)))
        await project.call(git_add, paths=["new.txt"])
        await project.call(git_commit, message="m")
        await project.call(git_stash)
        await project.call(git_checkout, ref="other", create=True)
        await project.call(git_stash, action="pop")

        marks = list(tmp_path.rglob(MARK))
        assert bool(marks) is trusted


async def test_RU_H9_a_merge_driver_of_an_untrusted_repository_does_not_run(tmp_path: Path) -> None:
    async with tool_project(tmp_path, trusted=False) as project:
        folder = repository(project.root)
        config(folder, ("user.name", "A"), ("user.email", "a@example.org"))
        git(folder, "checkout", "-q", "--", "b.txt")
        config(folder, ("merge.evil.driver", str(program(folder))))
        await project.call(git_stash)
        (folder / "a.txt").write_text("three\n")
        git(folder, "commit", "-qam", "three")
        with pytest.raises(ToolError, match="CONFLICT"):
            await project.call(git_stash, action="pop")

        assert not list(tmp_path.rglob(MARK))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("brings", ["hook", "filter", "hooks path", "nothing"])
def test_RU_H9_a_repository_that_brings_programs_asks_in_every_mode_but_yolo(
    tmp_path: Path, mode: Mode, brings: str
) -> None:
    folder = repository(tmp_path / "work")
    if brings == "hook":
        program(folder / ".git" / "hooks", "pre-commit")
    elif brings != "nothing":
        config(folder, ("filter.x.clean" if brings == "filter" else "core.hooksPath", "/evil"))

    for tool, arguments in (
        (git_add, '{"paths": ["."]}'),
        (git_commit, '{"message": "m"}'),
        (git_stash, "{}"),
    ):
        expected = {"plan": "deny", "yolo": "allow", "ask": "ask"}.get(
            mode, "allow" if brings == "nothing" else "ask"
        )
        assert decide(facts_of_call(folder, tool, arguments), mode).decision == expected, tool.name


def test_RU_H9_an_answer_for_hooks_lasts_a_session_at_most(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    program(folder / ".git" / "hooks", "pre-commit")
    verdict = decide(facts_of_call(folder, git_commit, '{"message": "m"}'), "edit")

    assert verdict.reason.endswith("the repository brings hooks (pre-commit)")
    assert verdict.rules_to_save == ()
    assert [rule.tool for rule in verdict.rules_for_session] == ["git_commit"]


def options_of(*settings: Setting) -> list[str]:
    given = guarded_options(settings, "/project")
    return [
        pair for pair in given[1::2] if not pair.startswith(("advice", "color", "column", "diff.", "core.q"))
    ]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((), "core.hooksPath=/dev/null"),
        ((Setting("global", "core.hookspath", "/home/u/hooks"),), "core.hooksPath=/home/u/hooks"),
        ((Setting("global", "core.hookspath", ".githooks"),), "core.hooksPath=/dev/null"),
        ((Setting("global", "core.hookspath", "/project/hooks"),), "core.hooksPath=/dev/null"),
        ((Setting("local", "core.hookspath", "/evil"),), "core.hooksPath=/dev/null"),
        (
            (
                Setting("global", "filter.lfs.clean", "git-lfs clean"),
                Setting("local", "filter.lfs.clean", "evil"),
            ),
            "filter.lfs.clean=git-lfs clean",
        ),
        ((Setting("local", "filter.x.clean", "evil"),), "filter.x.clean="),
        ((Setting("local", "merge.x.driver", "evil"),), "merge.x.driver=false"),
        ((Setting("local", "gpg.program", "evil"),), "gpg.program=gpg"),
        ((Setting("worktree", "gpg.ssh.program", "evil"),), "gpg.ssh.program=ssh-keygen"),
        ((Setting("local", "remote.o.uploadpack", "evil"),), "remote.o.uploadpack=git-upload-pack"),
        ((Setting("local", "hook.x.command", "evil"),), "hook.x.command=true"),
        ((Setting("local", "core.sshcommand", "evil"),), "core.sshcommand=ssh"),
    ],
)
def test_RU_H9_own_programs_run_as_the_person_set_them_or_not_at_all(
    settings: tuple[Setting, ...], expected: str
) -> None:
    assert expected in options_of(*settings)


def test_RU_H9_the_credential_helpers_of_the_person_stay() -> None:
    found = options_of(
        Setting("global", "credential.helper", "store"), Setting("local", "credential.helper", "!evil")
    )

    assert found[-2:] == ["credential.helper=", "credential.helper=store"]


def test_RU_H9_a_program_that_cannot_be_switched_off_is_refused() -> None:
    with pytest.raises(ToolError, match="cannot be switched off"):
        guarded_options((Setting("local", "filter.a=b.clean", "evil"),), "/project")


def test_RU_H1_an_empty_git_folder_hides_no_repository(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    (folder / "sub" / ".git").mkdir(parents=True)
    program(folder / ".git" / "hooks", "pre-commit")

    assert find_repository(str(folder / "sub"), str(folder)).top == str(folder)
    assert facts_of_call(folder, git_commit, '{"message": "m"}', cwd="sub").programs


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"action": "drop", "index": 3}', "git stash drop 'stash@{3}'"),
        ('{"action": "pop"}', "git stash pop 'stash@{0}'"),
        ('{"message": "a; b"}', "git stash push '--message=a; b'"),
    ],
)
async def test_RU_H10_the_approval_of_a_stash_shows_all_of_it(
    tmp_path: Path, arguments: str, shown: str
) -> None:
    async with tool_project(tmp_path) as project:
        repository(project.root)
        assert git_stash.preview is not None
        assert git_stash.preview(project.context(), git_stash.decode(arguments)) == Plain(shown)


async def test_RU_M5_a_blob_is_shown_by_its_name_only(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        (folder / ".env").write_text("PASSWORD_OF_THE_DATABASE=hunter2hunter2\n")
        git(folder, "add", "-f", ".env")
        git(folder, "commit", "-qm", "env")
        blob = git(folder, "rev-parse", "HEAD:.env").strip()
        git(folder, "tag", "leak", blob)
        git(folder, "tag", "-am", "x", "annotated", blob)
        for ref in (
            blob,
            blob[:10],
            "leak",
            "annotated",
            "leak^{}",
            "refs/tags/leak",
            ":0:.env^{}",
            f"{blob}^{{blob}}",
        ):
            with pytest.raises(ToolError):
                await project.call(git_show, ref=ref)
        for ref in ("HEAD", "HEAD^{tree}", "HEAD~1", "main"):
            assert "hunter2" not in (await project.call(git_show, ref=ref)).text
        other = git(folder, "rev-parse", "HEAD:a.txt").strip()
        for ref in (blob, f"{blob}..{other}", f"{other}...{blob}", "leak"):
            with pytest.raises(ToolError) as refused:
                await project.call(git_diff, ref=ref)
            assert "hunter2" not in str(refused.value)
