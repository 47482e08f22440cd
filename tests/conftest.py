"""The fixtures of every test run: the count of skipped capabilities, and no way to reach a real model by
accident."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

KEYS = [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN")) or name.startswith("BUDDY_")]


def pytest_configure(config: pytest.Config) -> None:
    """No test may spend anybody's money: keys leave the environment before anything is imported. And programs
    hear signals that a shell's background or nohup would have them ignore."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)  # as before for the tests; what they start has the default
    for name in KEYS:
        del os.environ[name]
    # Workers and programs that tests start read compiled modules, where they would compile some hundred each.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    # An example for which the machine stood still is no failure.
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")


def pytest_xdist_auto_num_workers() -> int:
    """Start two workers for a processor: tests of whole programs spend most of their time waiting."""
    return 2 * (os.cpu_count() or 1)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which capabilities were missing, and how many tests that cost."""
    missing: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        missing[reason.removeprefix("Skipped: ")] += 1
    for reason, count in sorted(missing.items()):
        terminalreporter.write_line(f"skipped {count}: {reason}")
