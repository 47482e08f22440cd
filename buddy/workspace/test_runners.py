"""The test suite of a project: which one it is, how it is run, and its results."""

from __future__ import annotations

import os
import re
from typing import Literal

import msgspec

from buddy.agent.formatting import whole_number
from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.safety.git_repository import read_regular

SuiteName = Literal["pytest", "npm", "cargo", "go", "make"]
MAKE_TARGET = pattern(rb"^(test|check)\s*:(?!=)", re.MULTILINE)
PYTHON_MARKS = ("pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini", "conftest.py", "setup.py")
LOOKED_AT_BYTES = 1_000_000
ENVIRONMENT = {"CI": "true", "NO_COLOR": "1", "FORCE_COLOR": "0", "CARGO_TERM_COLOR": "never"}
"""Keeps test runners from watching for changes and from colouring."""


class Suite(msgspec.Struct, frozen=True):
    """A way to run tests."""

    name: SuiteName
    argv: tuple[str, ...]


def find_suite(folder: str, target: str, wanted: SuiteName | None) -> Suite:
    """Return the suite of a project folder, or the wanted one. Raises `ToolError` when there is none."""
    if target.startswith("-") or "\0" in target:
        raise ToolError(f"expected a file, folder or test name as target, found an option: {target[:80]!r}")
    name = wanted or _detect(folder)
    if name is None:
        raise ToolError(
            f"found no tests that can be run in {folder}: no pytest project, no package.json with a test "
            "script, no Cargo.toml, no go.mod, no Makefile with a test target. "
            "Use run_shell with the right command."
        )
    return Suite(name, _argv(name, folder, target))


def _detect(folder: str) -> SuiteName | None:
    if _is_file(folder, "Cargo.toml"):
        return "cargo"
    if _is_file(folder, "go.mod"):
        return "go"
    if _has_test_script(folder):
        return "npm"
    if any(_is_file(folder, name) for name in PYTHON_MARKS) or _has_python_tests(folder):
        return "pytest"
    return "make" if _make_target(folder) else None


def _argv(name: SuiteName, folder: str, target: str) -> tuple[str, ...]:
    match name:
        case "pytest":
            named = ("--", target) if target else ()
            return (_python(folder), "-m", "pytest", "--color=no", "-rfE", *named)
        case "npm":
            return ("npm", "test", "--silent", *(("--", target) if target else ()))
        case "cargo":
            return ("cargo", "test", "--no-fail-fast", *((target,) if target else ()))
        case "go":
            return ("go", "test", "-v", target or "./...")
        case "make":
            return ("make", target or _make_target(folder) or "test")


def _python(folder: str) -> str:
    for environment in (".venv", "venv"):
        candidate = os.path.join(folder, environment, "bin", "python")
        if os.access(candidate, os.X_OK):
            return candidate
    return "python3"


def _has_test_script(folder: str) -> bool:
    try:
        package = msgspec.json.decode(_content(folder, "package.json"), type=_Package)
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested without end
        return False
    script = package.scripts.get("test", "")
    return bool(script) and "no test specified" not in script


class _Package(msgspec.Struct):
    scripts: dict[str, str] = {}


def _has_python_tests(folder: str) -> bool:
    for place in (folder, os.path.join(folder, "tests"), os.path.join(folder, "test")):
        try:
            names = os.listdir(place)
        except OSError:
            continue
        if any(name.endswith(".py") and name.startswith("test_") for name in names):
            return True
    return False


def _make_target(folder: str) -> str:
    for name in ("Makefile", "makefile", "GNUmakefile"):
        found = MAKE_TARGET().search(_content(folder, name))
        if found:
            return found[1].decode()
    return ""


def _is_file(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name))


def _content(folder: str, name: str) -> bytes:
    return read_regular(os.path.join(folder, name), LOOKED_AT_BYTES)


MAX_LINE_BYTES = 10_000
MAX_NAMES = 100
ESCAPE = pattern(r"\x1b\[[0-9;?]*[A-Za-z]")
WORD = pattern(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|todo|pending)")
KIND = {
    "passed": "passed",
    "xpassed": "passed",
    "passing": "passed",
    "pass": "passed",
    "PASS": "passed",
    "failed": "failed",
    "failing": "failed",
    "fail": "failed",
    "FAIL": "failed",
    "error": "failed",
    "errors": "failed",
    "failures": "failed",
    "skipped": "skipped",
    "xfailed": "skipped",
    "pending": "skipped",
    "todo": "skipped",
    "ignored": "skipped",
    "SKIP": "skipped",
}

SUMMARIES = (
    pattern(r"=* ?(?:\d+ [a-z]+(?:, )?)+ in [\d.]+s(?: \([\d:]+\))? ?=*"),  # pytest
    pattern(r"Tests:\s+.*\d+ total"),  # jest
    pattern(r"\s*Tests\s+\d+ .*\(\d+\)"),  # vitest
)
ADDED = (
    pattern(r"test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<skipped>\d+) ignored.*"),
    pattern(r"\s*(?P<count>\d+) (?P<kind>passing|failing|pending)(?: \(.*\))?"),  # mocha
    pattern(r"(?:#|ℹ) (?P<kind>pass|fail|skipped|todo) (?P<count>\d+)"),  # node
)
GO_TEST = pattern(r"(?P<indent>\s*)--- (?P<kind>PASS|FAIL|SKIP): (?P<name>\S+) \([\d.]+s\)")
UNITTEST_RAN = pattern(r"Ran (\d+) tests? in [\d.]+s")
UNITTEST_END = pattern(r"(?:OK|FAILED)(?: \((?P<counts>.*)\))?")
FAILED_NAMES = (
    pattern(r"(?:FAILED|ERROR) (?P<name>\S+::\S.*?|\S+\.py)(?: - .*)?"),  # pytest
    pattern(r"test (?P<name>\S+) \.\.\. FAILED"),  # cargo
    pattern(r"\s*● (?P<name>.+ › .+)"),  # jest
    pattern(r"\s*FAIL\s+(?P<name>\S+ > .+)"),  # vitest
    pattern(r"not ok \d+ -? ?(?P<name>.+)"),  # TAP
    pattern(r"✖ (?P<name>(?!failing tests:).+?) \([\d.]+ms\)"),  # node
    pattern(r"(?:FAIL|ERROR): (?P<name>\S+ \(\S+\))"),  # unittest
    pattern(r"  \d+\) (?P<name>.+?):?"),  # mocha
)


class SuiteCounts(msgspec.Struct, frozen=True):
    """Numbers of tests passed, failed (errors included) and skipped, and names of the failed ones (at most
    100). `known` is False when the output held no counts."""

    passed: int
    failed: int
    skipped: int
    failures: tuple[str, ...]
    known: bool


class ResultReader:
    """Reads a test run's output as it arrives."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._counts = {"passed": 0, "failed": 0, "skipped": 0}
        self._names: dict[str, None] = {}
        self._ran = -1
        self._known = False

    def feed(self, data: bytes) -> None:
        """Take what was just written."""
        self._line += data
        if b"\n" not in data:
            del self._line[MAX_LINE_BYTES:]
            return
        *lines, rest = bytes(self._line).split(b"\n")
        self._line = bytearray(rest[:MAX_LINE_BYTES])
        for line in lines:
            self._read(ESCAPE().sub("", line[:MAX_LINE_BYTES].decode("utf-8", "replace")).rstrip())

    def counts(self) -> SuiteCounts:
        """Return the final counts."""
        self.feed(b"\n")
        found = self._counts
        return SuiteCounts(
            found["passed"], found["failed"], found["skipped"], tuple(self._names), self._known
        )

    def _read(self, line: str) -> None:
        if not line:
            return
        if any(summary().fullmatch(line) for summary in SUMMARIES):
            self._add_words(line)
        for added in ADDED:
            if found := added().fullmatch(line):
                self._add_groups(found.groupdict())
        self._read_go(line)
        self._read_unittest(line)
        for failed in FAILED_NAMES:
            if (found := failed().fullmatch(line)) and len(self._names) < MAX_NAMES:
                self._names.setdefault(found["name"][:500])

    def _add(self, kind: str, count: int) -> None:
        self._counts[KIND[kind]] += count
        self._known = True

    def _add_words(self, line: str) -> None:
        for found in WORD().finditer(line):
            self._add(found[2], whole_number(found[1]) or 0)

    def _add_groups(self, groups: dict[str, str]) -> None:
        if "kind" in groups:
            self._add(groups["kind"], whole_number(groups["count"]) or 0)
            return
        for kind, count in groups.items():
            self._add(kind, whole_number(count) or 0)

    def _read_go(self, line: str) -> None:
        found = GO_TEST().fullmatch(line)
        if found is None:
            return
        if not found["indent"]:  # a test with subtests is counted once
            self._add(found["kind"], 1)
        if found["kind"] == "FAIL" and len(self._names) < MAX_NAMES:
            self._names.setdefault(found["name"])

    def _read_unittest(self, line: str) -> None:
        """unittest says how many ran, and then how many of those did not pass."""
        if ran := UNITTEST_RAN().fullmatch(line):
            self._ran = whole_number(ran[1]) or 0
        elif self._ran >= 0 and (end := UNITTEST_END().fullmatch(line)):
            numbers = dict(re.findall(r"([\w ]+?)=(\d+)", (end["counts"] or "").replace(", ", ",")))
            counts = {name: whole_number(number) or 0 for name, number in numbers.items()}
            failed = counts.get("failures", 0) + counts.get("errors", 0)
            skipped = counts.get("skipped", 0)
            self._add("failed", failed)
            self._add("skipped", skipped)
            self._add("passed", max(0, self._ran - failed - skipped))
            self._ran = -1
