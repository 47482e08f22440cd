"""The facts of a turn for its receipt, collected from its events, its undo entries and its commands."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress

from buddy.agent.display import Command
from buddy.agent.events import AgentUiEvent, ToolFinished, ToolStarted
from buddy.agent.lazy_regex import pattern
from buddy.agent.receipt import (
    CallFacts,
    ChangedFile,
    Check,
    CheckKind,
    Means,
    Receipt,
    RunCounts,
    receipt_of,
)
from buddy.agent.tool import ToolError, ToolRegistry
from buddy.safety.sanitise import one_line
from buddy.workspace.test_runners import ResultReader
from buddy.workspace.undo.entries import NOTHING, UndoEntry
from buddy.workspace.undo.log import UndoLog

MAX_COMMAND_CHARS = 60
# Counting changed lines of larger files takes seconds; their receipt has no counts.
MAX_COUNTED_CHARS = 2_000_000

_RUNNERS: tuple[tuple[CheckKind, str], ...] = (
    ("tests", r"python[\d.]*( -\w+)* -m (pytest|unittest|nose2)|pytest|py\.test"),
    ("tests", r"tox|nox|jest|vitest|mocha|ava|rspec|phpunit|ctest|bats|prove|behave"),
    ("tests", r"(npm|pnpm|yarn|bun|deno)( run)? (test|t)(:\S+)?|node --test|cargo nextest run"),
    (
        "tests",
        r"(go|cargo|dotnet|mix|swift|zig build|bazel|flutter|dart|meson|rake|stack|cabal|sbt|lein) test",
    ),
    (
        "tests",
        r"(\./)?gradlew? (test|check)|(\./)?mvnw? (test|verify)",
    ),
    (
        "build",
        r"(go|cargo|dotnet|swift|zig|bazel|stack|cabal) build|cargo check|go vet|mix compile|tsc|ninja",
    ),
    (
        "build",
        r"(npm|pnpm|yarn|bun)( run)? build|cmake --build|meson compile",
    ),
    ("build", r"(\./)?gradlew? (build|assemble)|(\./)?mvnw? (package|compile|install)"),
    ("check", r"mypy|pyright|flake8|pylint|eslint|ruff (check|format --check)|cargo (clippy|fmt --check)"),
    ("check", r"(npm|pnpm|yarn|bun)( run)? (lint|typecheck|check)|golangci-lint run|shellcheck"),
    ("check", r"python[\d.]* -m (mypy|pyright|ruff|flake8|pylint)"),
)
_ASSIGNMENT = pattern(r"[A-Za-z_]\w*=\S*")
_PREFIXES = (
    ("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("hatch", "run"), ("pnpm", "exec"), ("bundle", "exec"),
    ("npx",), ("bunx",), ("time",), ("env",), ("command",),
)  # fmt: skip
_TEST_TARGETS = frozenset({"test", "tests", "check", "unittest"})
_LINT_TARGETS = frozenset({"lint", "typecheck", "types"})
_BUILD_TARGETS = frozenset({"all", "build"})
_OPERATORS = frozenset(";&|()")
_INTERPRETERS = pattern(r"python[\d.]*|node|deno|bun|ruby|perl|php|lua|julia|Rscript|go|bash|sh|zsh|dash")


def check_of(command: str) -> tuple[CheckKind, bool] | None:
    """Return the kind of check a command line runs, None when it runs no known one.

    The second value tells whether the exit code is the check's own: a pipe or a later command hides it, and
    after `||` the check may not have run.
    """
    parts = _parts(command)
    for at, (words, operator) in enumerate(parts):
        text = " ".join(words)
        if words[0] in ("make", "gmake", "just"):
            kind = _kind_of_target(words[1:])
            if kind is not None:
                return kind, at == len(parts) - 1 and operator != "||"
        for kind, runner in _RUNNERS:
            if re.match(rf"(?:{runner})(?=\s|$)", text):
                return kind, at == len(parts) - 1 and operator != "||"
    return None


def script_of(command: str) -> tuple[str, bool] | None:
    """Return the script a command line runs, as written there, None when it runs none. The second value is as
    in `check_of`."""
    parts = _parts(command)
    for at, (words, operator) in enumerate(parts):
        script = words[0]
        if _INTERPRETERS().fullmatch(script):
            script = next((word for word in words[1:] if word != "run" and not word.startswith("-")), "")
        if "." in script and script != ".":
            return script.removeprefix("./"), at == len(parts) - 1 and operator != "||"
    return None


def _kind_of_target(words: list[str]) -> CheckKind | None:
    """Return the kind of check that a `make` with these arguments runs."""
    targets = [
        word
        for before, word in itertools.pairwise(["", *words])
        if not word.startswith("-") and "=" not in word and before not in ("-C", "-f", "-j")
    ]
    if _TEST_TARGETS.intersection(targets):
        return "tests"
    if _LINT_TARGETS.intersection(targets):
        return "check"
    return "build" if not targets or _BUILD_TARGETS.intersection(targets) else None


def _parts(command: str) -> list[tuple[list[str], str]]:
    """Split a line into simple commands, each with the operator before it.

    Assignments, the directories of programs, and wrappers such as `env` or `uv run` are removed.
    """
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:  # an unclosed quote
        return []
    parts: list[tuple[list[str], str]] = [([], "")]
    for token in tokens:
        if token and _OPERATORS.issuperset(token):
            parts.append(([], token))
        else:
            parts[-1][0].append(token)
    return [(_strip_wrappers(words), operator) for words, operator in parts if _strip_wrappers(words)]


def _strip_wrappers(words: list[str]) -> list[str]:
    while words:
        prefix = next((prefix for prefix in _PREFIXES if tuple(words[: len(prefix)]) == prefix), ())
        if prefix:
            words = words[len(prefix) :]
        elif _ASSIGNMENT().fullmatch(words[0]):
            words = words[1:]
        elif words[0] == "timeout":
            words = words[2:]
        else:
            return [os.path.basename(words[0]) or words[0], *words[1:]]
    return []


class TurnFacts:
    """The calls of one turn while it runs. `root` is the folder that displayed paths are relative to; `tools`
    looks up a call's tool by its name."""

    def __init__(self, task_id: int, log: UndoLog | None, root: str, tools: ToolRegistry) -> None:
        self._task_id = task_id
        self._log = log
        self._root = root
        self._tools = tools
        self._started: dict[str, ToolStarted] = {}
        self._commands = False
        self._calls: list[tuple[str, CallFacts]] = []
        self._scripts: dict[str, str] = {}
        """The script each call ran, by call id; it counts as a check when the turn changed it."""

    def observe(self, event: AgentUiEvent) -> None:
        """Collect the facts of an event."""
        if isinstance(event, ToolStarted):
            self._started[event.call.id] = event
        elif isinstance(event, ToolFinished) and event.call_id in self._started:
            started = self._started.pop(event.call_id)
            self._commands |= isinstance(event.display, Command)
            if started.begun:
                tool = self._tools.get(started.call.name)
                runs_tests = tool is not None and tool.runs_tests
                check = _check(event, runs_tests=runs_tests) if event.status in ("ok", "error") else None
                if check is not None and check.kind == "run" and isinstance(event.display, Command):
                    self._scripts[event.call_id], _ = script_of(event.display.command) or ("", False)
                self._calls.append((event.call_id, CallFacts(started.title, event.status, check=check)))

    @property
    def ran_commands(self) -> bool:
        """Tell whether a command ran, which may have changed files."""
        return self._commands

    def receipt(self, unseen: str) -> Receipt | None:
        """Build the receipt, None when nothing was changed. Reads and compares contents: run it in a
        thread."""
        if self._log is None:
            return None
        ids = {call_id for call_id, _ in self._calls}
        entries = [entry for entry in self._log.entries(self._task_id) if entry.call_id in ids]
        changing = {entry.call_id for entry in entries}
        files = self._files(entries)
        calls = [
            CallFacts(
                call.title,
                call.status,
                call_id in changing,
                self._check_for_receipt(call_id, call.check, files),
            )
            for call_id, call in self._calls
        ]
        return receipt_of(calls, files, unseen)

    def last_tests(self) -> tuple[Check | None, bool]:
        """Return the last test run of the turn, None without one, and whether files were changed since (the
        whole turn without one)."""
        entries = self._log.entries(self._task_id) if self._log is not None else ()
        changing = {entry.call_id for entry in entries}
        changed = False
        for call_id, call in reversed(self._calls):
            if call.check is not None and call.check.kind == "tests":
                return call.check, changed
            changed |= call_id in changing
        return None, changed

    def _check_for_receipt(
        self, call_id: str, check: Check | None, files: Sequence[ChangedFile]
    ) -> Check | None:
        """Return the check of a call; the run of a script counts only when the turn changed the script."""
        script = self._scripts.get(call_id)
        if script is None:
            return check
        changed = (file.new_path or file.path for file in files)
        return check if any(f"/{path}".endswith(f"/{script}") for path in changed) else None

    def _files(self, entries: Sequence[UndoEntry]) -> list[ChangedFile]:
        first: dict[str, str] = {}
        last: dict[str, tuple[str, Means]] = {}
        moved: list[ChangedFile] = []
        for entry in entries:
            means: Means = "command" if entry.effect else "edit"
            for file in entry.files:
                first.setdefault(file.real, file.before)
                last[file.real] = (file.after, means)
            for rename in entry.renames:
                kind = "delete" if rename.trashed else "move"
                new = "" if rename.trashed else self._display_path(rename.target)
                moved.append(ChangedFile(self._display_path(rename.source), kind, None, None, means, new))
        changed = (
            self._file(real, before, *last[real]) for real, before in first.items() if before != last[real][0]
        )
        return [*changed, *moved]

    def _file(self, real: str, before: str, after: str, means: Means) -> ChangedFile:
        change = "add" if before == NOTHING else "delete" if after == NOTHING else "update"
        added, removed = self._counts(before, after)
        return ChangedFile(self._display_path(real), change, added, removed, means)

    def _counts(self, before: str, after: str) -> tuple[int | None, int | None]:
        from buddy.workspace.files.line_diff import (
            line_changes,  # imported here: it loads difflib, which start-up does not need
        )

        assert self._log is not None
        with suppress(ToolError, UnicodeDecodeError, OSError):
            old, new = ((self._log.content(digest) or b"").decode() for digest in (before, after))
            if "\0" not in old + new and len(old) + len(new) <= MAX_COUNTED_CHARS:
                changes = line_changes(old, new)
                return sum(len(change.new) for change in changes), sum(len(change.old) for change in changes)
        return None, None

    def _display_path(self, real: str) -> str:
        below = os.path.relpath(real, self._root)
        return one_line(real if below.startswith("..") else below, 120)


def _classify_command(command: str) -> tuple[CheckKind, bool] | None:
    if (check := check_of(command)) is not None:
        return check
    run = script_of(command)
    return None if run is None else ("run", run[1])


def _check(event: ToolFinished, *, runs_tests: bool) -> Check | None:
    display = event.display
    if not isinstance(display, Command):
        return None
    recognised = ("tests", True) if runs_tests else _classify_command(display.command)
    if recognised is None:
        return None
    kind, is_own = recognised
    reader = ResultReader()
    if kind == "tests":
        reader.feed(display.output.encode("utf-8", "replace") + b"\n")
    counts = reader.counts()
    tested = RunCounts(counts.passed, counts.failed, counts.skipped) if counts.known else None
    command = one_line(display.command, MAX_COMMAND_CHARS)
    return Check(kind, command, display.exit_code if is_own else None, display.ended, tested)
