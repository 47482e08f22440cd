"""A day's spending is counted over all sessions and processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from buddy.sessions.daily_spending import DaySpending
from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program

ADD = """
import sys
from buddy.sessions.daily_spending import DaySpending
one = DaySpending(sys.argv[1], lambda: "2026-01-02")
for _ in range(200):
    one.add(0.001)
"""

FULL = """
import resource, sys
from buddy.sessions.daily_spending import DaySpending
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
one = DaySpending(sys.argv[1], lambda: "2026-01-02")
one.add(0.25)
print(one.spent_today())
"""


def test_what_several_processes_spend_is_one_sum(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    started = [subprocess.Popen([sys.executable, "-c", ADD, str(tmp_path)], cwd=root) for _ in range(4)]
    assert [one.wait(50) for one in started] == [0] * 4
    spending = DaySpending(str(tmp_path), lambda: "2026-01-02")
    assert spending.spent_today() == pytest.approx(0.8)
    spending.add(0.5)
    assert spending.spent_today() == pytest.approx(1.3)
    assert spending.spent_today() == pytest.approx(1.3), "nothing is counted twice"


def test_another_day_begins_at_nothing_and_forgets_the_days_before(tmp_path: Path) -> None:
    day = ["2026-01-02"]
    spending = DaySpending(str(tmp_path / "state"), lambda: day[0])
    spending.add(1)
    day[0] = "2026-01-03"
    assert spending.spent_today() == 0
    spending.add(2)
    assert spending.spent_today() == 2
    assert os.listdir(tmp_path / "state") == ["spent-2026-01-03"]
    assert (tmp_path / "state" / "spent-2026-01-03").stat().st_mode & 0o777 == 0o600


def test_damage_and_half_lines_are_no_money(tmp_path: Path) -> None:
    (tmp_path / "spent-2026-01-02").write_bytes(b"1.5\n\xff\n-3\nnan?\n0.25")
    spending = DaySpending(str(tmp_path), lambda: "2026-01-02")
    assert spending.spent_today() == 1.5
    with (tmp_path / "spent-2026-01-02").open("ab") as file:
        file.write(b"\n")
    assert spending.spent_today() == 1.75


def test_where_nothing_can_be_written_a_process_counts_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    spending = DaySpending(str(tmp_path / "file"), lambda: "2026-01-02")
    spending.add(0.25)
    assert spending.spent_today() == 0.25


def test_a_full_disk_loses_no_count(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], cwd=root, check=True, capture_output=True, text=True
    )
    assert done.stdout == "0.25\n"
    assert (tmp_path / "spent-2026-01-02").read_bytes() == b""


async def test_the_budget_of_a_day_stops_the_next_session_too(tmp_path: Path) -> None:
    answer = reply("word " * 50)
    async with FakeLLM([answer, answer]) as server:
        limits = {"budget": {"day_usd": 0.2}, "agent": {"max_tokens": 16_000}}
        program = Program(tmp_path, server.url, settings={**limits, "api": {"model": "openai/gpt-4.1"}})
        first = await program.run("exec", "hi")
        assert first.code == 0, first.err
        (day,) = (program.home / ".local/state/buddy").glob("spent-*")
        assert 0 < float(day.read_text()) < 0.2
        day.write_text("0.15\n")
        second = await program.run("exec", "hi")
    assert second.code == 5
    assert second.told()[-1].endswith(", $0.05 of the day's budget is left")
