"""The traceback that `--debug` prints has no variables, no keys and nothing that a terminal acts on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from buddy.cli.traceback_text import traceback_text
from tests.support.secrets_for_tests import SHAPED

KEY = SHAPED["Anthropic"]


def _fails(text: str) -> None:
    hidden = text[::-1]
    raise ValueError(f"cannot use {text} ({len(hidden)})")


def _report_of(text: str, note: str = "", *keys: str) -> str:
    with pytest.raises(ValueError, match="cannot use") as caught:
        _fails(text)
    caught.value.add_note(note)
    return traceback_text(caught.value, keys)


@pytest.mark.parametrize("columns", ["24", "80", "500"])
def test_it_shows_the_source_and_no_variables(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    report = _report_of("wxyz")
    assert "hidden = text[::-1]" in report or columns == "24"
    assert "ValueError" in report
    assert "zyxw" not in report
    assert max(map(len, report.split("\n"))) <= int(columns)


@pytest.mark.parametrize("secret", [KEY, "a key of the environment"])
@pytest.mark.parametrize("columns", ["24", "80"])
def test_it_has_no_keys_however_narrow(monkeypatch: pytest.MonkeyPatch, secret: str, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    report = _report_of(f"{'x' * 30} {secret}", f"noted: {secret}", "a key of the environment").replace(
        "\n", ""
    )
    for start in range(0, len(secret) - 12, 4):
        assert secret[start : start + 12] not in report
    assert "⟨redacted" in report


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\x1b]0;x\x07", "\x9b2J", "\u202egnp", "a\rb"])
def test_it_has_nothing_a_terminal_acts_on(hostile: str) -> None:
    report = _report_of(hostile, hostile)
    assert not set(report) & set("\x1b\x07\x9b\u202e\r")
    assert "[bold]" in _report_of("[bold]it[/bold]")


def test_a_source_line_with_a_key_is_redacted_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    path = tmp_path / "plugin.py"
    path.write_text(f"def use():\n    return int('{'x' * 30} {KEY}')\n")
    namespace: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    with pytest.raises(ValueError, match="invalid literal") as caught:
        namespace["use"]()  # pyright: ignore[reportCallIssue]
    report = traceback_text(caught.value)
    assert "plugin.py" in report
    assert KEY[:20] not in report


@pytest.mark.parametrize(("options", "is_detailed"), [("'--debug'", True), ("", False)])
def test_a_crash_shows_it_with_debug_alone(tmp_path: Path, options: str, is_detailed: bool) -> None:
    script = (
        "import os, sys\n"
        "from buddy.cli.main import run\n"
        "class Crash(dict):\n"
        "    def get(self, *_): raise ZeroDivisionError('out of the blue')\n"
        f"run(['sessions', {options}], Crash(HOME={str(tmp_path)!r}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("buddy crashed. This is a bug in buddy, not your mistake.\n")
    assert "ZeroDivisionError: out of the blue" in ran.stderr
    assert ("╭" in ran.stderr) == is_detailed
