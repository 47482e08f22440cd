"""Commands judged to only read: what they run with, and what takes the judgement away."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.agent.messages import ToolMessage
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program


async def _answers(program: Program) -> list[str]:
    return [one.text for one in await program.history() if isinstance(one, ToolMessage)]


async def _ran(folder: Path, command: str, *options: str, path: str = "") -> tuple[Program, str]:
    async with FakeLLM([reply(call("run_shell", command=command)), reply("Done.")]) as server:
        program = Program(folder, server.url, environment={"PATH": path} if path else {})
        code = (await program.run("exec", "go", *options)).code
        (answer,) = await _answers(program)
        assert code == (3 if "needs an approval" in answer else 0)
        return program, answer


async def test_git_runs_hardened_when_nobody_was_asked(tmp_path: Path) -> None:
    _, answer = await _ran(tmp_path, "git config core.fsmonitor; git config log.showSignature")
    assert answer.startswith("false\nfalse\n[exit code 0")


async def test_git_runs_as_usual_when_the_command_was_allowed_as_a_change(tmp_path: Path) -> None:
    _, answer = await _ran(tmp_path, "touch x; git config core.fsmonitor", *YOLO)
    assert answer.startswith("[exit code 1")


async def test_SEC_051_a_configuration_that_starts_programs_is_named_and_nothing_starts(
    tmp_path: Path,
) -> None:
    Program(tmp_path, "http://127.0.0.1:9").git("config", "core.fsmonitor", "touch OWNED; false")
    program, answer = await _ran(tmp_path, "git status")
    assert "core.fsmonitor" in answer
    assert not (program.repo / "OWNED").exists()


async def test_a_program_of_the_workspace_on_the_persons_path_is_asked_about(tmp_path: Path) -> None:
    planted = Program(tmp_path, "http://127.0.0.1:9").repo / "bin" / "wc"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\ntouch OWNED\n")
    planted.chmod(0o755)
    program, answer = await _ran(tmp_path, "wc -l bin/wc", path=f"{planted.parent}:{os.environ['PATH']}")
    assert "would be the workspace's own" in answer
    assert not (program.repo / "OWNED").exists()


async def test_a_job_that_ends_while_the_session_goes_on_is_told(tmp_path: Path) -> None:
    replies = [
        reply(call("run_shell", command="echo started; sleep 1.5; exit 3", wait=False)),
        reply(call("read_job", job=1, offset=8, wait=10)),
        reply("Done."),
    ]
    async with FakeLLM(replies) as server:
        program = Program(tmp_path, server.url)
        ran = await program.run("exec", "go", *YOLO)
    assert ran.code == 0
    told = [line.removeprefix("  info: ") for line in ran.err.splitlines() if line.startswith("  info: job")]
    assert len(told) == 1
    assert told[0].startswith("job 1 ended (exit code 3, ")
    assert told[0].endswith("s): echo started; sleep 1.5; exit 3")


def _git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words],
        cwd=folder,
        check=True,
        capture_output=True,
    )


def _unknown_words(repo: Path) -> None:
    (repo / "f.txt").write_text("hi\n")
    (repo / "files.txt").write_text("f.txt -a -v x[$(id>OWNED)]\n")


def _link_behind(repo: Path) -> None:
    (repo / "1/2/3/4/5/6/7/8").mkdir(parents=True)
    (repo / "l").symlink_to("1/2/3/4/5/6/7/8")
    (repo.parent / "private.txt").write_text("stolen words")


def _empty_git_folder(repo: Path) -> None:
    _git(repo, "config", "filter.x.clean", "touch OWNED; cat")
    _git(repo, "config", "diff.external", "touch OWNED; true")
    (repo / ".gitattributes").write_text("* filter=x\n")
    (repo / "sub/.git").mkdir(parents=True)
    (repo / "f.txt").write_text("zz\n")


def _folder_named_unknown(repo: Path) -> None:
    (repo / "…").mkdir()
    sub = repo / "libs/sub"
    sub.mkdir(parents=True)
    _git(sub, "init", "-q")
    (sub / "f").write_text("x")
    _git(sub, "add", "f")
    _git(sub, "config", "filter.x.clean", f"touch {repo}/OWNED; cat")
    (sub / ".gitattributes").write_text("* filter=x\n")
    (sub / "f").write_text("y")


def _merge_driver(repo: Path) -> None:
    _git(repo, "commit", "-q", "--allow-empty", "-m", "base")
    _git(repo, "branch", "base")
    for branch, text in (("one", "1\n"), ("two", "2\n")):
        _git(repo, "checkout", "-q", "-b", branch, "base")
        (repo / "m.txt").write_text(text)
        _git(repo, "add", "m.txt")
        _git(repo, "commit", "-qm", branch)
    _git(repo, "merge", "-q", "-s", "ours", "one")
    _git(repo, "config", "merge.ev.driver", f"touch {repo}/OWNED; exit 0")
    (repo / ".git/info/attributes").write_text("* merge=ev\n")


def _partial_clone(repo: Path) -> None:
    _git(repo, "config", "remote.origin.url", "http://127.0.0.1:9/x")
    _git(repo, "config", "remote.origin.promisor", "true")
    _git(repo, "config", "credential.helper", f"!touch {repo}/OWNED")


def _option_names(repo: Path) -> None:
    key = repo.parent / "key"
    key.write_text("stolen words\n")
    odd = repo / f"--files0-from={key}"
    odd.parent.mkdir(parents=True)
    odd.write_text("x")
    _git(repo, "add", "-A")


ATTACKS: list[tuple[str, Callable[[Path], None], str]] = [
    ("RU-C1", _unknown_words, "cat files.txt | while read -r n; do [ -e $n ]; done"),
    (
        "RU-C1",
        _unknown_words,
        "printf '%s\\n' 'f.txt -a -v x[$(id>OWNED)]' | while read n; do [ -e $n ]; done",
    ),
    ("RU-C1", _unknown_words, "printf '%%n x[$(id>OWNED)]' | while read -r n; do printf -- $n; done"),
    ("RU-C2", _link_behind, "cd l/../.. && cat private.txt"),
    ("RU-C2", _link_behind, "cd l/.. && cat ../private.txt"),
    ("RU-H1", _empty_git_folder, "git -C sub status"),
    ("RU-H1", _empty_git_folder, "cd sub && git diff"),
    ("RU-H2", _folder_named_unknown, "find libs -maxdepth 1 -type d -exec git -C {} status --short \\;"),
    (
        "RU-H2",
        _folder_named_unknown,
        "find libs -type d -print0 | xargs -0 -I{} git -C {} status",
    ),
    ("RU-H3", _merge_driver, "git show --diff-merges=remerge HEAD"),
    ("RU-H4", _partial_clone, "env -i git log -p"),
    ("RU-H4", _partial_clone, "env -u GIT_NO_LAZY_FETCH git show HEAD"),
    ("RU-H7", _option_names, "git ls-files | xargs -n1 wc -l"),
]


@pytest.mark.parametrize(("number", "prepare", "command"), ATTACKS)
async def test_RU_plan_mode_runs_nothing_that_only_looks_like_reading(
    tmp_path: Path, number: str, prepare: Callable[[Path], None], command: str
) -> None:
    async with FakeLLM([reply(call("run_shell", command=command)), reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        prepare(program.repo)
        await program.run("exec", "go", "--permission-mode", "plan")
        (answer,) = await _answers(program)
    assert "plan" in answer, number
    assert "stolen" not in answer, number
    assert not (program.repo / "OWNED").exists(), number
