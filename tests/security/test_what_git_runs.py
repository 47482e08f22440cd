"""Programs in the workspace that git's settings name: an edit of them asks, and no sandboxed command plants
or changes one."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from buddy.app.launch import find_launch
from buddy.app.options import Options
from buddy.safety.git_programs import programs_of_git
from buddy.safety.paths import Boundary
from buddy.safety.policy.facts import facts_of
from buddy.tools.files.write import write_file
from tests.capabilities import requires
from tests.security.test_git_data_is_guarded import git, prepare
from tests.support.sandbox_machine import LOOKS, sandbox_machine

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]

COMMIT = ("commit", "-q", "--allow-empty", "-m", "x")
NAMED = {
    ".githooks": [("core.hooksPath", ".githooks")],
    "etc/hooks": [("core.hooksPath", "./etc/hooks")],
    "up": [("core.hooksPath", "etc/../up")],
    "tools/clean.sh": [("filter.x.clean", "./tools/clean.sh")],
    "tools/smudge.py": [("filter.x.smudge", "python3 tools/smudge.py %f")],
    "a b": [("core.hooksPath", "a b")],
    "monitor": [("core.fsmonitor", "monitor")],
    "tools/m": [("core.fsmonitor", '"tools/m"')],
    "tools/diff": [("diff.x.command", "tools/diff --quiet")],
    "tools/conv": [("diff.x.textconv", "sh -c 'tools/conv \"$1\"'")],
    "tools/merge": [("merge.x.driver", "tools/merge %A %B")],
    "tools/edit": [("core.editor", "tools/edit")],
    "tools/page": [("core.pager", "LESS=R tools/page")],
    "tools/key": [("credential.helper", "!$(git rev-parse --show-toplevel)/tools/key")],
    "tools/alias": [("alias.x", "!tools/alias")],
    "tools/ssh": [("core.sshCommand", "tools/ssh -i x")],
    "tools/gpg": [("gpg.program", "./tools/gpg")],
    "tools/seq": [("sequence.editor", "tools/seq;")],
    "shared.cfg": [("include.path", "../shared.cfg")],
    "deep/hooks": [("include.path", "../more.cfg")],
}
PLAIN = {
    "tools/x": [("alias.x", "log tools/x")],
    "main": [("branch.main.remote", "main"), ("alias.p", "!git push main")],
    ".githooks": [("core.hooksPath", "/dev/null"), ("user.name", ".githooks")],
    "src": [("alias.fmt", "!black src")],
}


def configured(root: Path, settings: list[tuple[str, str]]) -> str:
    top = os.path.realpath(root)
    git(Path(top), "init", "-q")
    (root / "src").mkdir()
    (root / "more.cfg").write_text(
        "[core] hooksPath = deep/hooks ; with a comment\n".replace(" ; with a comment", "")
    )
    for key, value in settings:
        git(Path(top), "config", key, value)
    return top


@pytest.mark.parametrize("name", NAMED)
def test_what_a_setting_of_git_names_is_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "monitor").touch()
    top = configured(tmp_path, NAMED[name])
    assert f"{top}/{name}" in programs_of_git((top,), "/home/nobody")


@pytest.mark.parametrize("name", PLAIN)
def test_what_git_does_not_run_is_none(tmp_path: Path, name: str) -> None:
    top = configured(tmp_path, PLAIN[name])
    assert f"{top}/{name}" not in programs_of_git((top,), "/home/nobody")


def test_settings_of_the_person_count_and_changes_are_seen(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    top = configured(work, [])
    assert programs_of_git((top,), str(home)) == frozenset()
    (home / ".gitconfig").write_text("[core]\n\thooksPath = \\\n.hooks\n")
    assert programs_of_git((top,), str(home)) == {f"{top}/.hooks", f"{top}/.git/.hooks"}
    git(work, "config", "core.editor", "bin/edit")
    assert programs_of_git((top,), str(home)) == {
        *(f"{top}/.hooks", f"{top}/.git/.hooks"),
        f"{top}/bin/edit",
    }


HOOKS = "[core]\n\thooksPath = {}\n"
NESTED = {
    "hooks": ("sub", HOOKS.format(".githooks"), "sub/.githooks"),
    "a filter": ("a/b/sub", '[filter "x"]\n\tclean = tools/x %f\n', "a/b/sub/tools/x"),
    "a program beside the repository": ("sub", "[core]\n\tfsmonitor = ../tools/x\n", "tools/x"),
    "a program of the outer repository": ("sub", "[core]\n\teditor = {top}/tools/x\n", "tools/x"),
    "further settings": ("sub", "[include]\n\tpath = ../../more.ini\n", "more.ini"),
    "a working tree elsewhere": ("sub", "[core]\n\tworktree = ../../tree\n\thooksPath = h\n", "tree/h"),
    "hooks of a push": ("sub", HOOKS.format("h"), "sub/.git/h"),
    "an alias by the home folder": ("sub", '[alias]\n\tx = "!$HOME/repo/t/x"\n', "t/x"),
    "a tab": ("sub", HOOKS.format("a\tb"), "sub/a b"),
    "a tab that stays": ("sub", HOOKS.format("a\tb"), "sub/a\tb"),
    "a blank no git cuts": ("sub", HOOKS.format("h\u00a0"), "sub/h\u00a0"),
    "behind much else": ("sub", "# x\n" * 60_000 + HOOKS.format("h"), "sub/h"),
    "settings that include themselves": (
        "sub",
        "[include]\n\tpath = config\n" * 3_000 + HOOKS.format("h"),
        "sub/h",
    ),
}


def nested(root: Path, name: str) -> tuple[str, str]:
    """Make a repository with another one in it; return the inner tree and the path its settings name."""
    inner, settings, named = NESTED[name]
    top = os.path.realpath(root)
    git(root, "init", "-q")
    git(root, "init", "-q", inner)
    with open(root / inner / ".git/config", "a") as config:
        config.write(settings.replace("{top}", top))
    return f"{top}/{inner}", f"{top}/{named}"


@pytest.mark.parametrize("name", NESTED)
def test_what_a_nested_repository_names_is_found(tmp_path: Path, name: str) -> None:
    work = tmp_path / "repo"
    work.mkdir()
    inner, named = nested(work, name)
    top = os.path.realpath(work)
    home = os.path.dirname(top)
    begin = time.process_time()
    assert named in programs_of_git((top, inner), home, within=(top,))
    assert time.process_time() - begin < 5  # files that include each other end soon


@pytest.mark.parametrize(
    "name", ["hooks", "a filter", "a program beside the repository", "further settings", "a tab"]
)
@pytest.mark.parametrize("level", LEVELS)
async def test_no_command_plants_or_changes_what_a_nested_repository_names(level: int, name: str) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        _inner, named = nested(machine.work, name)
        place = Path(named, "pre-commit") if name in ("hooks", "a tab") else Path(named)
        quoted = f'"{place}"'
        ran = await machine.run(f'mkdir -p "{place.parent}"; echo evil > {quoted}', machine.confinement())
        assert not place.exists(), (ran.text, machine.sandbox.take_repairs())
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("as it was\n")
        ran = await machine.run(f"echo evil > {quoted}; rm -f {quoted}; true", machine.confinement())
        assert place.read_text() == "as it was\n", (ran.text, machine.sandbox.take_repairs())


@pytest.mark.parametrize("level", LEVELS)
async def test_no_command_changes_what_a_submodule_names(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        prepare(machine)
        git(machine.outside, "init", "-q", "lib")
        git(machine.outside / "lib", "-c", "user.name=a", "-c", "user.email=a@b", *COMMIT)
        git(
            machine.work,
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "add",
            "-q",
            "../outside/lib",
            "dep",
        )
        git(machine.work / "dep", "config", "core.hooksPath", ".hooks")
        ran = await machine.run(
            "mkdir dep/.hooks; echo x > dep/.hooks/pre-commit; ls dep", machine.confinement()
        )
        assert not (machine.work / "dep/.hooks/pre-commit").exists(), ran.text


def test_settings_named_by_variables_and_those_of_a_bare_repository_count(tmp_path: Path) -> None:
    top = os.path.realpath(tmp_path / "repo")
    elsewhere = tmp_path / "config/git/config"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text(HOOKS.format(".hooks"))
    git(tmp_path, "init", "-q", "repo")
    git(tmp_path, "init", "-q", "--bare", "repo/data")
    git(tmp_path / "repo/data", "config", "core.hooksPath", "inner")
    found = programs_of_git((top, f"{top}/data"), "/home/nobody", settings=(str(elsewhere),))
    assert {f"{top}/.hooks", f"{top}/data/inner"} <= found


@pytest.mark.parametrize(
    ("variable", "path"),
    [("XDG_CONFIG_HOME", "git/config"), ("GIT_CONFIG_GLOBAL", ""), ("GIT_CONFIG_SYSTEM", "")],
)
def test_a_start_knows_where_the_persons_settings_of_git_lie(
    tmp_path: Path, variable: str, path: str
) -> None:
    launch = find_launch(Options(), {"HOME": str(tmp_path), variable: "/elsewhere/x"})
    assert launch.boundary.git_settings == (os.path.join("/elsewhere/x", path).rstrip("/"),)


def test_an_edit_of_what_a_nested_repository_runs_asks(tmp_path: Path) -> None:
    nested(tmp_path, "hooks")
    top = os.path.realpath(tmp_path)
    arguments = write_file.decode(json.dumps({"path": "sub/.githooks/pre-commit", "content": "x"}))
    (written,) = facts_of(write_file, arguments, Boundary(top, top, "/home/nobody")).writes
    assert written.protected


@pytest.mark.parametrize("path", [".githooks/pre-commit", "tools/clean.sh", "sub/../tools/clean.sh", "src/x"])
def test_an_edit_of_what_git_runs_is_one_of_a_protected_file(tmp_path: Path, path: str) -> None:
    top = configured(tmp_path, [("core.hooksPath", ".githooks"), ("filter.x.clean", "./tools/clean.sh")])
    arguments = write_file.decode(json.dumps({"path": path, "content": "x"}))
    written = facts_of(write_file, arguments, Boundary(top, top, "/home/nobody")).writes
    assert [bool(one.protected) for one in written] == [path != "src/x"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("is_there", [True, False])
async def test_a_command_neither_plants_nor_changes_what_git_runs(level: int, is_there: bool) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        prepare(machine)
        git(machine.work, "config", "core.hooksPath", ".githooks")
        git(machine.work, "config", "filter.x.clean", "./tools/clean.sh")
        git(machine.work, "config", "core.editor", "node_modules/.bin/edit")
        hook, clean = machine.work / ".githooks/pre-commit", machine.work / "tools/clean.sh"
        if is_there:
            for path in (hook, clean):
                path.parent.mkdir()
                path.write_text("#!/bin/sh\ncat\n")
        mark = machine.outside / "ran"
        evil = f"printf '#!/bin/sh\\ntouch {mark}\\n'"
        ran = await machine.run(
            f"mkdir -p .githooks tools node_modules/.bin; {evil} > .githooks/pre-commit; "
            f"{evil} > tools/clean.sh; chmod +x .githooks/* tools/*; echo y > tools/other; "
            "echo x > node_modules/.bin/edit",
            machine.confinement(),
        )
        git(machine.work, "commit", "-q", "--allow-empty", "-m", "y", check=False)

        assert not mark.exists(), (ran.text, machine.sandbox.take_repairs())
        for path in (hook, clean):
            assert path.exists() is is_there
            assert not is_there or path.read_text() == "#!/bin/sh\ncat\n"
        assert (machine.work / "tools/other").exists()
        assert (machine.work / "node_modules/.bin/edit").exists()
