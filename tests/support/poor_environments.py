"""Environments a program is started in by cron jobs, containers and mistakes."""

from __future__ import annotations

from collections.abc import Mapping

POOR_ENVIRONMENTS: tuple[Mapping[str, str], ...] = (
    {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii"},
    {"HOME": "\0"},
    {"HOME": ""},
    {"PATH": ""},
    {"PATH": "\0"},
    {"TMPDIR": "/nowhere"},
)
