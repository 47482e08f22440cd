"""Programs in the workspace that git's settings name: an edit of them asks, and no sandboxed command plants
or changes one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from buddy.safety.git_programs import programs_of_git
from buddy.safety.paths import Boundary
from buddy.safety.policy.facts import facts_of
from buddy.tools.files.write import write_file
from tests.capabilities import requires
from tests.security.test_git_data_is_guarded import git, prepare
from tests.support.sandbox_desk import LOOKS, sandbox_desk

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]

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
    assert programs_of_git((top,), str(home)) == {f"{top}/.hooks"}
    git(work, "config", "core.editor", "bin/edit")
    assert programs_of_git((top,), str(home)) == {f"{top}/.hooks", f"{top}/bin/edit"}


@pytest.mark.parametrize("path", [".githooks/pre-commit", "tools/clean.sh", "sub/../tools/clean.sh", "src/x"])
def test_an_edit_of_what_git_runs_is_one_of_a_protected_file(tmp_path: Path, path: str) -> None:
    top = configured(tmp_path, [("core.hooksPath", ".githooks"), ("filter.x.clean", "./tools/clean.sh")])
    arguments = write_file.decode(json.dumps({"path": path, "content": "x"}))
    written = facts_of(write_file, arguments, Boundary(top, top, "/home/nobody")).writes
    assert [bool(one.protected) for one in written] == [path != "src/x"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("is_there", [True, False])
async def test_a_command_neither_plants_nor_changes_what_git_runs(level: int, is_there: bool) -> None:
    async with sandbox_desk(look=LOOKS[level]) as desk:
        prepare(desk)
        git(desk.work, "config", "core.hooksPath", ".githooks")
        git(desk.work, "config", "filter.x.clean", "./tools/clean.sh")
        git(desk.work, "config", "core.editor", "node_modules/.bin/edit")
        hook, clean = desk.work / ".githooks/pre-commit", desk.work / "tools/clean.sh"
        if is_there:
            for path in (hook, clean):
                path.parent.mkdir()
                path.write_text("#!/bin/sh\ncat\n")
        mark = desk.outside / "ran"
        evil = f"printf '#!/bin/sh\\ntouch {mark}\\n'"
        ran = await desk.run(
            f"mkdir -p .githooks tools node_modules/.bin; {evil} > .githooks/pre-commit; "
            f"{evil} > tools/clean.sh; chmod +x .githooks/* tools/*; echo y > tools/other; "
            "echo x > node_modules/.bin/edit",
            desk.confinement(),
        )
        git(desk.work, "commit", "-q", "--allow-empty", "-m", "y", check=False)

        assert not mark.exists(), (ran.text, desk.sandbox.take_repairs())
        for path in (hook, clean):
            assert path.exists() is is_there
            assert not is_there or path.read_text() == "#!/bin/sh\ncat\n"
        assert (desk.work / "tools/other").exists()
        assert (desk.work / "node_modules/.bin/edit").exists()
