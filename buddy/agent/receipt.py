"""The receipt of a turn that changed files: what changed, what ran after the last change, what was refused,
and what was not checked. Computed from facts, never from the model's claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from buddy.agent.formatting import format_count, name_first

CheckKind = Literal["tests", "build", "check", "run"]
Means = Literal["edit", "command"]
MAX_FILES = 6
MAX_CHECKS = 3
_NOT_CHECKED = "no test or build ran after the last change"
_PROSE = frozenset({"adoc", "asciidoc", "markdown", "md", "org", "rst", "txt"})
_PROSE_NAMES = frozenset({"AUTHORS", "CHANGELOG", "COPYING", "LICENSE", "NOTICE", "README"})
"""Files that no test or build checks. Requirements and build files that end in .txt are not among them."""
_BUILD_FILES = frozenset({"CMakeLists.txt", "constraints.txt", "requirements.txt"})


class ChangedFile(msgspec.Struct, frozen=True):
    """A file as the turn left it, against what it was. Lines are None where they were not counted (binary,
    or a whole folder). `means`: an edit tool, or a command between two checkpoints."""

    path: str
    change: Literal["add", "update", "delete", "move"]
    added: int | None
    removed: int | None
    means: Means
    new_path: str = ""


class RunCounts(msgspec.Struct, frozen=True):
    """Counts of a test run."""

    passed: int
    failed: int
    skipped: int


class Check(msgspec.Struct, frozen=True):
    """A test run, build, linter or run of a changed script after the last change. `exit_code` is None where a
    signal or a limit ended it, or where it is not the check's own (a pipe, `;`, `||`)."""

    kind: CheckKind
    command: str
    exit_code: int | None
    ended: str = ""
    tests: RunCounts | None = None

    @property
    def is_bad(self) -> bool:
        """Tell whether the check is known to have failed."""
        return bool(self.exit_code) or (self.tests is not None and self.tests.failed > 0)

    @property
    def is_good(self) -> bool:
        """Tell whether the check is known to have passed: a run of no tests is not."""
        passed = self.exit_code == 0 if self.tests is None else self.tests.passed > 0
        return passed and not self.is_bad


class Receipt(msgspec.Struct, frozen=True):
    """The record. `earlier_checks`: how many ran before the last change only. `refused` are titles of calls
    that were denied, `failed` counts calls that ended with an error. `unseen` says why changes by commands
    may be missing, "" when none are."""

    files: tuple[ChangedFile, ...]
    checks: tuple[Check, ...]
    earlier_checks: int
    refused: tuple[str, ...]
    failed: int
    unseen: str = ""

    @property
    def missing_check(self) -> str:
        """Return the check that is missing, "" when one ran or only prose changed."""
        if self.checks or all(_is_prose(file) for file in self.files):
            return ""
        if self.earlier_checks:
            return f"{_NOT_CHECKED}; {format_count(self.earlier_checks, 'earlier run')} came before it"
        return _NOT_CHECKED


class CallFacts(msgspec.Struct, frozen=True):
    """One finished call. `changed`: it changed files; `check`: it is a check, and its result."""

    title: str
    status: Literal["ok", "error", "denied", "skipped", "cancelled"]
    changed: bool = False
    check: Check | None = None


def receipt_of(calls: Sequence[CallFacts], files: Sequence[ChangedFile], unseen: str = "") -> Receipt | None:
    """Return the receipt of the calls of a turn, in the order they ended, and of what they changed; None
    where nothing was changed. A check that changes files (caches, snapshots) still checks what came before
    it."""
    if not files:
        return None
    last = max((at for at, one in enumerate(calls) if one.changed and one.check is None), default=-1)
    checks = [call.check for call in calls[last + 1 :] if call.check is not None]
    earlier = sum(1 for call in calls[: last + 1] if call.check is not None)
    newest = {check.command: check for check in checks}  # run again, only the last result counts
    return Receipt(
        files=tuple(files),
        checks=tuple(newest.values()),
        earlier_checks=earlier,
        refused=tuple(call.title for call in calls if call.status == "denied"),
        failed=sum(1 for call in calls if call.status == "error" and call.check is None),
        unseen=unseen,
    )


def receipt_rows(receipt: Receipt) -> list[tuple[str, str]]:
    """Return the receipt as (label, text), two to five rows, for every front end."""
    shown = [_file_text(file) for file in receipt.files[:MAX_FILES]]
    if len(receipt.files) > MAX_FILES:
        shown.append(f"{len(receipt.files) - MAX_FILES} more")
    rows = [("changed", " · ".join(shown))]
    if receipt.checks:
        ran = [_check_text(check) for check in receipt.checks[-MAX_CHECKS:]]
        rows.append(("checked", " · ".join(ran)))
    elif receipt.missing_check:
        rows.append(("unchecked", receipt.missing_check))
    if receipt.refused:
        rows.append(("refused", name_first(receipt.refused, 2)))
    if receipt.failed:
        rows.append(("failed", format_count(receipt.failed, "call")))
    if receipt.unseen:
        rows.append(("unseen", receipt.unseen))
    return rows


def receipt_text(receipt: Receipt) -> str:
    """Return the receipt as plain lines."""
    return "\n".join(f"{label:<9}  {text}" for label, text in receipt_rows(receipt))


def _is_prose(file: ChangedFile) -> bool:
    """Tell whether a file is documentation, so that no check is missing."""
    name = (file.new_path or file.path).rpartition("/")[2]
    if name in _BUILD_FILES or name.startswith(("requirements", "constraints")):
        return False
    _, dot, extension = name.rpartition(".")
    return extension.lower() in _PROSE if dot else name in _PROSE_NAMES


def _file_text(file: ChangedFile) -> str:
    name = f"{file.path} → {file.new_path}" if file.change == "move" else file.path
    facts = {"add": "new", "delete": "deleted", "move": "moved", "update": ""}[file.change]
    counts = ""
    if file.change != "delete" and file.added is not None and file.removed is not None:
        parts = [f"+{file.added}" if file.added else "", f"−{file.removed}" if file.removed else ""]
        counts = " ".join(filter(None, parts))
    how = "by a command" if file.means == "command" else ""
    notes = ", ".join(filter(None, (facts, how)))
    return " ".join(filter(None, (name, counts, f"({notes})" if notes else "")))


def _check_text(check: Check) -> str:
    if check.tests is not None:
        tests = check.tests
        numbers = ((tests.passed, "passed"), (tests.failed, "failed"), (tests.skipped, "skipped"))
        result = ", ".join(f"{count} {word}" for count, word in numbers if count) or "no tests"
    elif check.exit_code is None:
        result = check.ended or "result not known: the exit code is another command's"
    else:
        good = "ran without an error" if check.kind == "run" else "passed"
        result = good if check.exit_code == 0 else "failed"
    code = f" (exit {check.exit_code})" if check.exit_code else ""
    return f"{check.command}: {result}{code}"
