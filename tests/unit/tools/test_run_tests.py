"""run_tests: which suite, which command, which counts."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from buddy.agent.tool import Access, ToolError
from buddy.tools.run_tests import run_tests
from buddy.workspace.test_runners import ResultReader, SuiteCounts, find_suite
from tests.capabilities import requires
from tests.support.processes import processes_with
from tests.support.tool_project import tool_project
from tests.support.waiting import until


def counts(text: str, *, piece: int = 0) -> SuiteCounts:
    reader, data = ResultReader(), text.encode()
    for start in range(0, len(data), piece or len(data)):
        reader.feed(data[start : start + (piece or len(data))])
    return reader.counts()


OUTPUTS = {
    "pytest": (
        "tests/test_a.py .F.s                      [100%]\n=== short test summary info ===\n"
        "FAILED tests/test_a.py::test_b[a - b] - assert 1 == 2\nERROR tests/test_c.py\n"
        "==== 1 failed, 2 passed, 1 skipped, 1 xfailed, 1 error in 0.12s ====\n",
        SuiteCounts(2, 2, 2, ("tests/test_a.py::test_b[a", "tests/test_c.py"), known=True),
    ),
    "pytest -q": ("..\n2 passed, 1 warning in 71.00s (0:01:11)\n", SuiteCounts(2, 0, 0, (), known=True)),
    "unittest": (
        "FAIL: test_x (mod.Case)\n------\nRan 5 tests in 0.001s\n\n"
        "FAILED (failures=1, errors=1, skipped=1)\n",
        SuiteCounts(2, 2, 1, ("test_x (mod.Case)",), known=True),
    ),
    "unittest ok": ("Ran 3 tests in 0.001s\n\nOK\n", SuiteCounts(3, 0, 0, (), known=True)),
    "cargo": (
        "test a::b ... ok\ntest a::c ... FAILED\n"
        "test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; "
        "0 filtered out; finished in 0.00s\n"
        "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        SuiteCounts(5, 1, 2, ("a::c",), known=True),
    ),
    "go": (
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.01s)\n    --- FAIL: TestB/sub (0.00s)\n"
        "    b_test.go:5: no\n--- SKIP: TestC (0.00s)\nFAIL\n",
        SuiteCounts(1, 1, 1, ("TestB", "TestB/sub"), known=True),
    ),
    "jest": (
        "  ● sum › adds\n\n  ● sum › adds\nTest Suites: 1 failed, 1 total\n"
        "Tests:       1 failed, 1 skipped, 2 passed, 4 total\n",
        SuiteCounts(2, 1, 1, ("sum › adds",), known=True),
    ),
    "vitest": (
        "\x1b[31m FAIL \x1b[39m src/a.test.ts > sum > adds\n      Tests  1 failed | 2 passed (3)\n",
        SuiteCounts(2, 1, 0, ("src/a.test.ts > sum > adds",), known=True),
    ),
    "mocha": (
        "  5 passing (10ms)\n  1 pending\n  1 failing\n\n  1) sum adds:\n",
        SuiteCounts(5, 1, 1, ("sum adds",), known=True),
    ),
    "node": (
        "✖ adds (1.5ms)\nℹ tests 3\nℹ pass 2\nℹ fail 1\nℹ skipped 0\n✖ failing tests:\n",
        SuiteCounts(2, 1, 0, ("adds",), known=True),
    ),
    "tap": ("ok 1 - a\nnot ok 2 - b\n# pass 1\n# fail 1\n", SuiteCounts(1, 1, 0, ("b",), known=True)),
    "nothing": (
        "make: nothing to be done\nthe tests passed in 3 minutes\n",
        SuiteCounts(0, 0, 0, (), known=False),
    ),
}  # fmt: skip


@pytest.mark.parametrize("piece", [0, 1, 7])
@pytest.mark.parametrize("runner", OUTPUTS)
def test_counts_and_names_are_read_however_the_output_arrives(runner: str, piece: int) -> None:
    text, expected = OUTPUTS[runner]
    assert counts(text, piece=piece) == expected


def test_endless_lines_and_many_failures_are_bounded() -> None:
    reader = ResultReader()
    for _ in range(1000):
        reader.feed(b"x" * 1000)
    for number in range(1000):
        reader.feed(f"\nnot ok {number} - test {number}".encode())
    assert len(reader.counts().failures) == 100


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_the_suite_is_found_by_the_files_of_the_project(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="found no tests that can be run"):
        find_suite(str(tmp_path), "", None)
    write(tmp_path, Makefile="all:\n\ttrue\ncheck: all\n\ttrue\n")
    assert find_suite(str(tmp_path), "", None).argv == ("make", "check")
    write(tmp_path, test_x__py="")
    assert find_suite(str(tmp_path), "a b", None).argv == (
        "python3", "-m", "pytest", "--color=no", "-rfE", "--", "a b",
    )  # fmt: skip
    write(
        tmp_path, package__json=json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})
    )
    assert find_suite(str(tmp_path), "", None).name == "pytest"
    for odd in (b'{"x":' + b"[" * 100_000, b'{"scripts":{"test":"\xff"}}'):
        (tmp_path / "package.json").write_bytes(odd)
        assert find_suite(str(tmp_path), "", None).name == "pytest"
    write(tmp_path, package__json=json.dumps({"scripts": {"test": "vitest"}}))
    assert find_suite(str(tmp_path), "sum", None).argv == ("npm", "test", "--silent", "--", "sum")
    write(tmp_path, go__mod="module x\n")
    assert find_suite(str(tmp_path), "", None).argv == ("go", "test", "-v", "./...")
    write(tmp_path, Cargo__toml="")
    assert find_suite(str(tmp_path), "", None).argv == ("cargo", "test", "--no-fail-fast")
    assert find_suite(str(tmp_path), "", "make").argv == ("make", "check")


def test_broken_project_files_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, package__json='{"scripts": ["x"', setup__cfg="")
    assert find_suite(str(tmp_path), "", None).name == "pytest"


def test_the_projects_own_environment_is_used(tmp_path: Path) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert find_suite(str(tmp_path), "", "pytest").argv[0] == str(python)


def test_a_target_cannot_be_an_option(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="found an option"):
        find_suite(str(tmp_path), "--exec=evil", "go")


def test_it_counts_as_writing_the_workspace() -> None:
    assert run_tests.access(run_tests.decode("{}")) == Access(reads=(".",), writes=(".",))


def test_RU_H9_it_is_a_high_risk_without_a_sandbox() -> None:
    assert (run_tests.risk, run_tests.risk_in_sandbox) == ("high", "medium")


def python_project(folder: Path, body: str) -> None:
    write(folder, test_it__py=body)
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    # A link would lose the environment pytest is installed in.
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)


async def test_a_real_run_tells_counts_and_failing_names(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        python_project(
            project.root,
            "import pytest\ndef test_a(): pass\ndef test_b(): assert 1 == 2\ndef test_c(): pytest.skip()\n",
        )
        result = await project.call(run_tests)
        assert result.text.startswith("1 passed, 1 failed, 1 skipped (pytest, exit code 1, ")
        assert "failed:\n  test_it.py::test_b\n" in result.text
        assert "assert 1 == 2" in result.text
        assert result.ok is False
        one = await project.call(run_tests, target="test_it.py::test_a")
        assert one.text.startswith("1 passed, 0 failed, 0 skipped (pytest, exit code 0, ")
        assert one.ok


@requires("make")
async def test_make_is_run_and_an_output_without_counts_is_told(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        write(project.root, Makefile="test:\n\t@echo fine\n")
        result = await project.call(run_tests)
        assert result.text.startswith("no test counts in the output (make, exit code 0, ")
        assert result.ok


async def test_a_missing_runner_is_explained(tmp_path: Path) -> None:
    async with tool_project(tmp_path, variables={"PATH": str(tmp_path)}) as project:
        write(project.root, go__mod="module x\n")
        with pytest.raises(ToolError, match="go could not be started: No such file"):
            await project.call(run_tests)


@requires("make")
async def test_at_its_time_limit_a_run_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    mark = "54321.125"
    async with tool_project(tmp_path) as project:
        write(project.root, Makefile=f"test:\n\tsetsid sleep {mark} & sleep {mark}\n")
        result = await project.call(run_tests, timeout=0.5)
        assert "stopped at the time limit" in result.text
        assert result.ok is False
        assert processes_with(mark) == []


@requires("make")
async def test_cancelling_a_run_ends_it(tmp_path: Path) -> None:
    mark = "54321.250"
    async with tool_project(tmp_path) as project:
        write(project.root, Makefile=f"test:\n\tsetsid sleep {mark} & sleep {mark}\n")
        work = asyncio.ensure_future(project.call(run_tests))
        await until(lambda: len(processes_with(mark)) >= 2)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert processes_with(mark) == []


async def test_tests_do_not_run_outside_the_workspace(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        with pytest.raises(ToolError, match="expected a folder inside the workspace"):
            await project.call(run_tests, cwd="..")
