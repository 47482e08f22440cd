"""A repository that brings its own programs: looking at it runs none of them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.tools.git import git_branch, git_diff, git_log, git_show, git_status
from buddy.workspace.git.config import UNREADABLE, active_hooks, executing_keys
from tests.support.tool_project import tool_project

MARK = "the-repository-ran-this"
QUIET_ENV = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": "/dev/null/nowhere", "PATH": os.environ["PATH"]}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments],
        cwd=folder,
        env=QUIET_ENV,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def repository(folder: Path) -> Path:
    """Two commits, a change that is not staged, one that is, an untracked file."""
    folder.mkdir(exist_ok=True, parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    (folder / ".gitattributes").write_text("*.txt diff=evil filter=evil merge=evil\n*.bin filter=e\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    (folder / "b.txt").write_text("b\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "second")
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "b.txt").write_text("bb\n")
    git(folder, "add", "b.txt")
    (folder / "new.txt").write_text("n\n")
    return folder


def program(folder: Path, name: str = "evil.sh") -> Path:
    """A program that leaves a mark, wherever it is called from."""
    path = folder / name
    path.write_text(f"#!/bin/sh\necho ran >> {folder.parent}/{MARK}\ncat 2>/dev/null\nexit 0\n")
    path.chmod(0o755)
    return path


def config(folder: Path, *pairs: tuple[str, str]) -> None:
    for key, value in pairs:
        git(folder, "config", key, value)


def _fsmonitor(folder: Path, evil: Path) -> None:
    config(folder, ("core.fsmonitor", str(evil)))


def _builtin_fsmonitor(folder: Path, evil: Path) -> None:
    config(folder, ("core.fsmonitor", "true"))


def _hooks(folder: Path, evil: Path) -> None:
    for name in (
        "post-index-change",
        "fsmonitor-watchman",
        "post-checkout",
        "pre-commit",
        "reference-transaction",
    ):
        program(folder / ".git" / "hooks", name)
    config(folder, ("core.hooksPath", str(folder / ".git" / "hooks")))


def _external_diff(folder: Path, evil: Path) -> None:
    config(folder, ("diff.external", str(evil)), ("diff.evil.command", str(evil)))


def _textconv(folder: Path, evil: Path) -> None:
    config(folder, ("diff.evil.textconv", str(evil)), ("diff.evil.cachetextconv", "true"))


def _filters(folder: Path, evil: Path) -> None:
    config(
        folder,
        ("filter.evil.clean", str(evil)),
        ("filter.evil.smudge", str(evil)),
        ("filter.evil.process", str(evil)),
        ("filter.evil.required", "true"),
    )


def _pager(folder: Path, evil: Path) -> None:
    keys = (
        "core.pager",
        "pager.status",
        "pager.diff",
        "pager.log",
        "pager.show",
        "pager.branch",
        "core.editor",
    )
    config(folder, *((key, str(evil)) for key in keys))


def _signatures(folder: Path, evil: Path) -> None:
    config(
        folder,
        ("log.showSignature", "true"),
        ("gpg.program", str(evil)),
        ("gpg.openpgp.program", str(evil)),
        ("gpg.ssh.program", str(evil)),
        ("gpg.ssh.allowedSignersFile", "/dev/null"),
    )
    tree = git(folder, "write-tree").strip()
    parent = git(folder, "rev-parse", "HEAD").strip()
    body = (
        f"tree {tree}\nparent {parent}\nauthor A <a@example.org> 1700000000 +0000\n"
        "committer A <a@example.org> 1700000000 +0000\n"
        "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----\n\nsigned\n"
    )
    made = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=folder,
        env=QUIET_ENV,
        input=body,
        capture_output=True,
        text=True,
        check=True,
    )
    git(folder, "update-ref", "refs/heads/main", made.stdout.strip())


def _network(folder: Path, evil: Path) -> None:
    config(
        folder,
        ("core.sshCommand", str(evil)),
        ("core.gitProxy", str(evil)),
        ("core.askPass", str(evil)),
        ("credential.helper", f"!{evil}"),
        ("remote.origin.url", f"ext::{evil}"),
        ("remote.origin.uploadpack", str(evil)),
        ("protocol.ext.allow", "always"),
    )


def _partial_clone(folder: Path, evil: Path) -> None:
    """Objects are missing and the configuration says where to fetch them: by a program."""
    config(
        folder,
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", f"ext::{evil}"),
        ("protocol.ext.allow", "always"),
    )
    blob = git(folder, "rev-parse", "HEAD~1:a.txt").strip()
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()


def _partial_clone_ssh(folder: Path, evil: Path) -> None:
    _partial_clone(folder, evil)
    config(folder, ("remote.origin.url", "ssh://example.invalid/x"), ("core.sshCommand", str(evil)))


def _partial_clone_uploadpack(folder: Path, evil: Path) -> None:
    _partial_clone(folder, evil)
    config(folder, ("remote.origin.url", f"file://{folder}"), ("remote.origin.uploadpack", str(evil)))


def _alias(folder: Path, evil: Path) -> None:
    names = ("status", "diff", "log", "show", "branch", "config", "st")
    config(folder, *((f"alias.{name}", f"!{evil}") for name in names))


def _include(folder: Path, evil: Path) -> None:
    (folder / "more.cfg").write_text(
        f'[core]\n\tfsmonitor = {evil}\n[diff]\n\texternal = {evil}\n[filter "evil"]\n\tclean = {evil}\n'
    )
    config(folder, ("include.path", "../more.cfg"))


def _worktree_config(folder: Path, evil: Path) -> None:
    config(folder, ("extensions.worktreeConfig", "true"))
    (folder / ".git" / "config.worktree").write_text(
        f'[core]\n\tfsmonitor = {evil}\n[filter "evil"]\n\tclean = {evil}\n\trequired = true\n'
    )


def _filter_with_odd_name(folder: Path, evil: Path) -> None:
    (folder / ".gitattributes").write_text("*.txt filter=A.b-C\n")
    config(folder, ("filter.A.b-C.clean", str(evil)), ("filter.A.b-C.required", "true"))


def _submodule(folder: Path, evil: Path) -> None:
    inner = repository(folder / "sub")
    _filters(inner, evil)
    _fsmonitor(inner, evil)
    (folder / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n')
    git(folder, "add", "-f", "sub", ".gitmodules")
    git(folder, "commit", "-qm", "with a submodule")
    (inner / "a.txt").write_text("changed inside\n")
    config(
        folder,
        ("submodule.sub.update", f"!{evil}"),
        ("submodule.sub.ignore", "none"),
        ("submodule.recurse", "true"),
        ("status.submoduleSummary", "true"),
        ("diff.submodule", "log"),
    )


def _merge_driver(folder: Path, evil: Path) -> None:
    config(folder, ("merge.evil.driver", f"{evil} %A %B"), ("log.diffMerges", "remerge"))
    git(folder, "stash", "-q", "--include-untracked")
    git(folder, "checkout", "-q", "-b", "side", "HEAD~1")
    (folder / "a.txt").write_text("side\n")
    git(folder, "-c", "merge.evil.driver=true", "commit", "-qam", "side")
    git(folder, "checkout", "-q", "main")
    (folder / "a.txt").write_text("main\n")
    git(folder, "commit", "-qam", "main")
    git(folder, "-c", "merge.evil.driver=true", "merge", "-q", "side", "-m", "merge")
    (folder / "a.txt").write_text("again\n")


HOSTILE: tuple[Callable[[Path, Path], None], ...] = (
    _fsmonitor, _builtin_fsmonitor, _hooks, _external_diff, _textconv, _filters, _pager,
    _signatures,
    _network, _partial_clone, _partial_clone_ssh, _partial_clone_uploadpack, _alias, _include,
    _worktree_config, _filter_with_odd_name, _submodule, _merge_driver,
)  # fmt: skip

MISSING_OBJECTS = (_partial_clone, _partial_clone_ssh, _partial_clone_uploadpack)
"""Looking at what is not there fails; it must not be fetched."""

LOOKS = (
    (git_status, {}),
    (git_diff, {}),
    (git_diff, {"staged": True}),
    (git_diff, {"ref": "HEAD~1"}),
    (git_log, {}),
    (git_log, {"path": "a.txt"}),
    (git_show, {}),
    (git_show, {"ref": "HEAD~1"}),
    (git_show, {"ref": "HEAD:a.txt"}),
    (git_branch, {"remotes": True}),
)


@pytest.mark.parametrize("make_hostile", HOSTILE, ids=lambda each: each.__name__.strip("_"))
async def test_looking_at_a_hostile_repository_runs_nothing_of_it(
    tmp_path: Path, make_hostile: Callable[[Path, Path], None]
) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        make_hostile(folder, program(tmp_path))
        marker = tmp_path.parent / MARK
        marker.unlink(missing_ok=True)
        (folder.parent / MARK).unlink(missing_ok=True)
        answered = 0
        for tool, arguments in LOOKS:
            try:
                result = await project.call(tool, **arguments)
                answered += bool(result.text)
            except ToolError:
                if make_hostile not in MISSING_OBJECTS:
                    raise
        left = [
            path for path in (tmp_path, tmp_path.parent, folder, folder / ".git") if (path / MARK).exists()
        ]
        assert left == []
        assert answered >= 5


@pytest.mark.parametrize(
    ("make_hostile", "keys"),
    [
        (_fsmonitor, ("core.fsmonitor",)),
        (_builtin_fsmonitor, ()),
        (_hooks, ("core.hookspath",)),
        (_external_diff, ("diff.evil.command", "diff.external")),
        (_textconv, ("diff.evil.textconv",)),
        (_filters, ("filter.evil.clean", "filter.evil.process", "filter.evil.smudge")),
        (_merge_driver, ("log.diffmerges", "merge.evil.driver")),
        (
            _network,
            (
                "core.askpass", "core.gitproxy", "core.sshcommand", "credential.helper", "protocol.ext.allow",
                "remote.origin.uploadpack", "remote.origin.url",
            ),
        ),
        (_include, ("core.fsmonitor", "diff.external", "filter.evil.clean", "include.path")),
        (_worktree_config, ("core.fsmonitor", "filter.evil.clean")),
        (_filter_with_odd_name, ("filter.A.b-C.clean",)),
    ],
    ids=lambda each: each.__name__.strip("_") if callable(each) else "",
)  # fmt: skip
def test_SEC_051_executing_keys_of_a_repository_are_listed(
    tmp_path: Path, make_hostile: Callable[[Path, Path], None], keys: tuple[str, ...]
) -> None:
    folder = repository(tmp_path / "work")
    make_hostile(folder, program(tmp_path))
    assert executing_keys(str(folder)) == keys


def test_SEC_051_an_alias_that_runs_a_shell_is_listed_and_a_plain_one_is_not(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    config(folder, ("alias.evil", "!sh -c id"), ("alias.st", "status"), ("submodule.x.update", "!id"))
    assert executing_keys(str(folder)) == ("alias.evil", "submodule.x.update")


def test_SEC_051_a_fresh_repository_has_none(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    config(folder, ("remote.origin.url", "https://example.org/x.git"), ("pager.log", "false"))
    assert executing_keys(str(folder)) == ()
    assert active_hooks(str(folder)) == ()


def test_SEC_051_a_configuration_nobody_can_read_counts_as_executing(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    (folder / ".git" / "config").write_text("[core\nbroken")
    assert executing_keys(str(folder)) == (UNREADABLE,)


def test_SEC_051_a_configuration_that_blocks_its_reader_counts_as_executing(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    os.mkfifo(tmp_path / "fifo")
    config(folder, ("include.path", str(tmp_path / "fifo")))
    assert executing_keys(str(folder), limit_s=0.5) == (UNREADABLE,)


def test_hooks_are_named_when_they_would_run(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    program(folder / ".git" / "hooks", "pre-commit")
    assert active_hooks(str(folder)) == ("pre-commit",)


def test_hooks_of_a_worktree_and_of_a_submodule_are_named_too(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    git(folder, "worktree", "add", "-q", str(tmp_path / "side"))
    program(folder / ".git" / "hooks", "pre-commit")
    assert active_hooks(str(tmp_path / "side")) == ("pre-commit",)
    allowed = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add")
    git(folder, *allowed, str(repository(tmp_path / "lib")), "sub")
    program(folder / ".git/modules/sub/hooks", "post-checkout")
    assert active_hooks(str(folder / "sub")) == ("post-checkout",)


async def test_a_pipe_behind_the_pointer_of_a_worktree_is_not_waited_for(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        real = repository(tmp_path / "real")
        os.rename(real / ".git", project.root / "kept")
        (project.root / ".git").write_text("gitdir: kept\n")
        assert (await project.call(git_status)).ok
        (project.root / "kept/info/exclude").unlink()
        os.mkfifo(project.root / "kept/info/exclude")
        with pytest.raises(ToolError, match="a pipe or a device"):
            await project.call(git_status)


@pytest.mark.parametrize(
    "text",
    ["", "gitdir:", "gitdir: nowhere", "nonsense", "gitdir: " + "x" * 9000, "gitdir: a\0b", "gitdir: \0"],
)
def test_a_pointer_to_nowhere_has_no_hooks(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text)
    assert active_hooks(str(tmp_path)) == ()


async def test_a_filter_whose_name_cannot_be_overridden_stops_the_command(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        (folder / ".gitattributes").write_text("*.txt filter=a=b\n")
        config(folder, ("filter.a=b.clean", str(program(tmp_path))))
        with pytest.raises(ToolError, match="cannot be switched off"):
            await project.call(git_status)
        assert not (tmp_path.parent / MARK).exists()


async def test_a_work_tree_elsewhere_is_not_shown(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "private.txt").write_text("secret\n")
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        config(folder, ("core.worktree", str(elsewhere)))
        result = await project.call(git_status)
        assert "private.txt" not in result.text
        assert " M a.txt" in result.text


async def test_a_bare_repository_inside_the_workspace_is_not_used(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        bare = project.root
        git(bare, "init", "-q", "--bare", ".")
        config(bare, ("core.fsmonitor", str(program(tmp_path))), ("core.bare", "false"))
        with pytest.raises(ToolError, match="expected a git repository"):
            await project.call(git_status)
        assert not (tmp_path.parent / MARK).exists()


async def test_git_is_never_taken_from_the_workspace(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    program(work, "git")
    async with tool_project(tmp_path, variables={"PATH": f"{work}:{os.environ['PATH']}"}) as project:
        repository(project.root)
        await project.call(git_status)
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize("ref", ["--output=x", "-p", "--ext-diff", "a b", "", "a\nb", "x" * 300])
async def test_a_ref_cannot_be_an_option(tmp_path: Path, ref: str) -> None:
    async with tool_project(tmp_path) as project:
        repository(project.root)
        with pytest.raises(ToolError, match="expected"):
            await project.call(git_show, ref=ref)


async def test_a_path_cannot_be_an_option(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        (folder / "--output=stolen").write_text("x\n")
        await project.call(git_diff, path="--output=stolen")
        assert not (folder / "stolen").exists()


def _ordinary_git(folder: Path, *arguments: str) -> None:
    """git as everybody runs it, with an end: a transport that answers nothing waits for ever."""
    null = subprocess.DEVNULL
    with subprocess.Popen(
        ["git", *arguments],
        cwd=folder,
        env=QUIET_ENV,
        stdin=null,
        stdout=null,
        stderr=null,
        start_new_session=True,
    ) as running:
        try:
            running.wait(3)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)


SPRINGING = (
    _fsmonitor, _hooks, _external_diff, _textconv, _filters, _signatures, _partial_clone, _partial_clone_ssh,
    _partial_clone_uploadpack, _include, _worktree_config, _filter_with_odd_name, _submodule,
)  # fmt: skip


@pytest.mark.parametrize("make_hostile", SPRINGING, ids=lambda each: each.__name__.strip("_"))
def test_the_traps_of_these_tests_do_spring_for_an_ordinary_git(
    tmp_path: Path, make_hostile: Callable[[Path, Path], None]
) -> None:
    folder = repository(tmp_path / "work")
    make_hostile(folder, program(tmp_path))
    marker = tmp_path.parent / MARK
    marker.unlink(missing_ok=True)
    (folder / "a.txt").touch()
    for command in (["status"], ["diff"], ["show"], ["log", "-p"]):
        _ordinary_git(folder, *command)
    assert any((path / MARK).exists() for path in (tmp_path.parent, folder, folder / ".git"))
    marker.unlink(missing_ok=True)
