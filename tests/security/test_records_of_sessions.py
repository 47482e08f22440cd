"""Records of earlier sessions are not read unasked: journals, snapshots, undo logs, checkpoints, exports and
the trash hold what a person once allowed, under names that do not say so."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from buddy.safety.protected import ProtectedPlaces, secret_reason
from buddy.workspace.sandbox.profile import Confinement
from tests.capabilities import requires
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.sandbox_machine import LOOKS, SECRET, SandboxMachine, sandbox_machine

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]
ID = "0123-4567-89ab-cdef"
SESSION = f".buddyx/sessions/{ID}"
RECORDS = (
    f"{SESSION}/journal.jsonl",
    f"{SESSION}/snapshot.json",
    f"{SESSION}/journal.torn",
    f"{SESSION}/undo/log.jsonl",
    f"{SESSION}/undo/blobs/5f1d",
    f"{SESSION}/checkpoints/objects/ab/cd",
    f"{SESSION}/checkpoints-fix-it/HEAD",
    f"{SESSION}/output.txt",
    f"{SESSION}/outputs/x",
    f"{SESSION}/undo/output/x",
    ".buddyx/trash/7/it",
    ".buddyx/trash/8/it/src/main.py",
    ".buddyx/trash/7/where.json",
    ".buddyx/trash/8/it/.env.example",
    ".buddyx/exports/2026-01-01.md",
    ".buddyx/exports/key.pub",
)
FOLDERS = (".buddyx", ".buddyx/sessions", SESSION, ".buddyx/trash", ".buddyx/exports", f"{SESSION}/undo")
OPEN = (
    f"{SESSION}/output/17.out",
    f"{SESSION}/output",
    ".buddyx/ext/tool.py",
    ".buddyx/hooks.json",
    ".buddyx/skills/x/SKILL.md",
    ".buddyx/commands/x.md",
    ".buddyx/templates/projects/x/template.toml",
    ".buddyx/worktrees/fix/src/main.py",
    ".buddyx/worktrees/sessions/src/main.py",
    ".buddyx/worktrees/fix/trash/x",
    "buddyx/sessions/x",
    "x.buddyx/sessions/x",
    "src/.buddyx.py",
    "sessions/journal.jsonl",
    "trash/it",
)
SPELLINGS = ("{}", ".BUDDYX{}", ".Buddyx{}", ".buddyx {}", ".buddyx.{}", ".buddyx\u200b{}")


@pytest.mark.parametrize("top", ["/home/me/project", "/home/me", "/srv/sessions of me"])
@pytest.mark.parametrize("path", [*RECORDS, *FOLDERS])
def test_ATTACK9_records_are_secret_wherever_the_workspace_lies(top: str, path: str) -> None:
    assert secret_reason(f"{top}/{path}", ProtectedPlaces("/home/me"))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_ATTACK9_records_are_secret_however_their_folder_is_spelt(spelling: str) -> None:
    path = spelling.format(f"/sessions/{ID}/journal.jsonl").removeprefix("/")
    prefix = "" if path.lower().startswith(".buddyx") else ".buddyx/"
    assert secret_reason(f"/home/me/project/{prefix}{path}", ProtectedPlaces("/home/me"))


@pytest.mark.parametrize("path", OPEN)
def test_ATTACK9_what_is_no_record_is_read_as_before(path: str) -> None:
    assert secret_reason(f"/home/me/project/{path}", ProtectedPlaces("/home/me")) == ""


READS = {
    "read_file": call("read_file", path=f"{SESSION}/journal.jsonl"),
    "read_file trash": call("read_file", path=".buddyx/trash/7/it"),
    "read_file by a link": call("read_file", path="link/journal.jsonl"),
    "grep": call("grep", pattern="hunter", path=f"{SESSION}/journal.jsonl"),
    "grep folder": call("grep", pattern="hunter", path=".buddyx"),
    "grep export": call("grep", pattern="hunter", path=".buddyx/exports"),
    "cat": call("run_shell", command=f"cat {SESSION}/journal.jsonl"),
    "cat trash": call("run_shell", command="cat .buddyx/trash/7/it"),
    "cat glob": call("run_shell", command="cat .buddyx/sessions/*/journal.jsonl"),
    "head": call("run_shell", command=f"head -n 5 {SESSION}/snapshot.json"),
    "awk": call("run_shell", command=f"awk /hunter/ {SESSION}/journal.jsonl"),
    "sort": call("run_shell", command=f"sort < {SESSION}/journal.jsonl"),
    "grep -r": call("run_shell", command="grep -r hunter .buddyx"),
    "grep -r cd": call("run_shell", command="cd .buddyx && grep -r hunter sessions"),
    "rg": call("run_shell", command="rg --hidden --no-ignore hunter .buddyx/sessions"),
    "diff": call("run_shell", command=f"diff {SESSION}/journal.jsonl main.py"),
    "link": call("run_shell", command="cat link/journal.jsonl"),
}


def _lay_records(top: Path) -> None:
    for path in RECORDS:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        if not (top / path).is_dir():
            (top / path).write_text(f"hunter {SECRET}\n")


@pytest.mark.parametrize("name", READS)
async def test_ATTACK9_naming_a_record_asks_without_a_sandbox(tmp_path: Path, name: str) -> None:
    async with FakeLLM([reply(READS[name]), reply("done")]) as server:
        program = Program(tmp_path, server.url, tools=("read_file", "grep", "run_shell"))
        program.files(main__py="print(1)\n")
        _lay_records(program.repo)
        (program.repo / "link").symlink_to(SESSION)
        ran = await program.run("exec", "go")
    assert ran.code == 3
    assert SECRET not in json.dumps(server.requests[-1].json)


async def test_ATTACK9_long_outputs_are_read_back_unasked(tmp_path: Path) -> None:
    output = f"{SESSION}/output/17.out"
    calls = (call("read_file", path=output), call("run_shell", command=f"tail -n 3 {output}"))
    async with FakeLLM([reply(*calls), reply("done")]) as server:
        program = Program(tmp_path, server.url, tools=("read_file", "run_shell"))
        program.files(main__py="print(1)\n")
        (program.repo / output).parent.mkdir(parents=True)
        (program.repo / output).write_text("the end of the build\n")
        ran = await program.run("exec", "go")
    assert (ran.code, ran.out) == (0, "done\n")
    assert json.dumps(server.requests[-1].json).count("the end of the build") == 2


WIDE = (
    "grep -rs hunter .",
    "grep -rs hunter",
    "grep -rs hunter .buddyx",
    "rg -uuu hunter",
    "rg --hidden --no-ignore hunter .",
    r"find . -type f -exec grep -s hunter {} +",
    "find . -name '*.jsonl' | xargs cat",
    "cat .buddyx/sessions/*/journal.jsonl .buddyx/trash/7/it",
    "cd .buddyx/sessions; cat */journal.jsonl",
    "cat link/journal.jsonl",
    "tar c . | strings | grep hunter",
    "cd sub/deeper && cat .buddyx/exports/*",
)


def _lay_machine(machine: SandboxMachine) -> None:
    _lay_records(machine.work)
    (machine.work / "link").symlink_to(SESSION)
    (machine.work / SESSION / "output").mkdir()
    (machine.work / SESSION / "output" / "17.out").write_text("the end of the build\n")


@pytest.mark.parametrize("command", WIDE)
@pytest.mark.parametrize("level", LEVELS)
async def test_ATTACK9_a_command_that_reads_sees_no_records(level: int, command: str) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        _lay_machine(machine)
        ran = await machine.run(command, machine.confinement("read-only"))
        assert SECRET not in ran.text
        seen = await machine.run(
            f"cat main.py; cat .buddyx/sessions/*/output/17.out || cat {SESSION}/output/17.out",
            machine.confinement("read-only"),
        )
        assert "print('hello')" in seen.text
        assert "the end of the build" in seen.text


@pytest.mark.parametrize("level", LEVELS)
async def test_ATTACK9_a_command_in_a_worktree_sees_no_records_of_the_main_tree(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        _lay_machine(machine)
        tree = machine.work / ".buddyx" / "worktrees" / "fix"
        tree.mkdir(parents=True)
        (tree / "main.py").write_text("in the worktree\n")
        boundary = msgspec.structs.replace(
            machine.boundary,
            root=str(tree),
            cwd=str(tree),
            extra=(str(machine.work / SESSION / "output"),),
            main=str(machine.work),
        )
        command = (
            f"cat {tree}/main.py {machine.work}/{SESSION}/*/*.out {machine.work}/{SESSION}/output/17.out; "
        )
        command += f"grep -rs hunter {machine.work}"
        ran = await machine.run(command, Confinement("read-only", boundary))
        assert "in the worktree" in ran.text
        assert "the end of the build" in ran.text
        assert SECRET not in ran.text


@pytest.mark.parametrize("level", LEVELS)
async def test_ATTACK9_secret_files_of_other_worktrees_are_hidden(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        tree = machine.work / ".buddyx" / "worktrees" / "fix"
        (tree / "deep").mkdir(parents=True)
        for path in (".env", "deep/server.key", "deep/.npmrc"):
            (tree / path).write_text(f"hunter {SECRET}\n")
        (tree / "deep" / "main.py").write_text("hunter of bugs\n")
        ran = await machine.run("grep -rs hunter .", machine.confinement("read-only"))
        assert SECRET not in ran.text
        assert "hunter of bugs" in ran.text


@pytest.mark.parametrize("kind", ["read-only", "workspace"])
@pytest.mark.parametrize("level", LEVELS)
async def test_ATTACK9_records_of_other_projects_are_hidden(level: int, kind: str) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        for project in (machine.home, machine.home / "code" / "other"):
            project.mkdir(parents=True, exist_ok=True)
            _lay_records(project)
        command = f"grep -rs hunter {machine.home}; cat {machine.home}/.buddyx/sessions/*/journal.jsonl"
        confinement = Confinement("read-only" if kind == "read-only" else "workspace", machine.boundary)
        ran = await machine.run(command, confinement)
        assert SECRET not in ran.text


@pytest.mark.parametrize("level", LEVELS)
async def test_ATTACK9_a_link_among_the_outputs_opens_nothing(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        _lay_records(machine.work)
        (machine.work / SESSION / "output").symlink_to("undo")
        other = machine.work / ".buddyx" / "sessions" / "ffff-4567-89ab-cdef"
        other.mkdir()
        hidden = machine.home / ".ssh" / "output"
        hidden.mkdir(parents=True)
        (hidden / "key").write_text(SECRET)
        (other / "output").symlink_to(hidden)
        other.with_name("eeee-4567-89ab-cdef").symlink_to(hidden.parent)
        ran = await machine.run(
            "cat .buddyx/sessions/*/output/* .buddyx/sessions/*/output/blobs/*",
            machine.confinement("read-only"),
        )
        assert SECRET not in ran.text
