"""Every recorded chat and messages stream, and every recorded error answer, is understood."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.bench import recorded_streams
from tests.capabilities import SHARED, requires

RECORDED = SHARED / "recorded"

WRONG_EXPECTATIONS = {"anthropic-messages-24"}
"""Three answers in one file; the recorded expectation has the last call twice, with one id."""


def _runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_streams", RECORDED / "run_streams.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_streams"] = module
    spec.loader.exec_module(module)
    return module


def rows(name: str) -> list[dict[str, Any]]:
    path = RECORDED / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


STREAMS = [row for row in rows("streams/index.jsonl") if row["api"] in ("chat", "messages")]


@requires("shared")
@pytest.mark.parametrize("row", STREAMS, ids=[row["id"] for row in STREAMS])
def test_a_recorded_stream_is_the_same_reply_however_it_is_cut(row):
    runner = _runner()
    raw = Path(RECORDED / row["file"]).read_bytes()
    modes = ["whole", "rand", "edges"] + (["1"] if len(raw) < 10_000 else [])
    found = {
        mode: runner.compare(row["expect"], runner.feed(recorded_streams, row, raw, mode)) for mode in modes
    }
    expected: list[str] = ["tool_calls"] if row["id"] in WRONG_EXPECTATIONS else []
    assert found == dict.fromkeys(modes, expected)


@requires("shared")
@pytest.mark.parametrize("row", STREAMS, ids=[row["id"] for row in STREAMS])
def test_a_recorded_stream_that_breaks_off_is_never_taken_for_an_answer(row):
    runner = _runner()
    raw = Path(RECORDED / row["file"]).read_bytes()
    end = runner.cut_point(raw, row["api"])
    if end:
        assert runner.check_cut(row["expect"], runner.feed(recorded_streams, row, raw[:end], "rand")) == []


@requires("shared")
def test_every_recorded_error_answer_is_classified():
    wrong = []
    for row in rows("errors.jsonl"):
        found = recorded_streams.classify(
            row["provider"], row["api"], row["status"], row["headers"], row["body"]
        )
        expected = (row["class"], row["retryable"])
        delay = row.get("retry_after_s")
        is_near = delay is None or abs((found["retry_after_s"] or -9) - delay) <= 1.5
        if (found["class"], found["retryable"]) != expected or not is_near:
            wrong.append((row["id"], expected, delay, found))
    assert wrong == []
