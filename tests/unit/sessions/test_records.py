"""Records that are written before the loop has cleaned them carry no secrets; the others are left alone."""

from __future__ import annotations

from buddy.agent.display import Command
from buddy.agent.events import ApprovalRequested
from buddy.agent.messages import NO_USAGE, AssistantMessage, Call, Text, Thinking, UserMessage
from buddy.sessions.records import (
    BudgetSet,
    JobChanged,
    QueueChanged,
    Renamed,
    TaskChanged,
    ToolBegun,
    redact_record,
    redact_reply,
)
from tests.support.secrets_published import WHOLE

KEY = WHOLE["GitHub classic"]
GONE = "⟨redacted: GitHub token⟩"


def test_a_request_for_approval_is_cleaned_to_its_depth() -> None:
    asked = ApprovalRequested(
        "q1", Call("c1", "run_shell", f'{{"command": "curl {KEY}"}}'), "high", f"it sends {KEY}",
        Command(f"curl {KEY}", "", None, "", 0.0), f"curl {KEY}", "digest",
    )  # fmt: skip
    assert redact_record(asked) == ApprovalRequested(
        "q1", Call("c1", "run_shell", f'{{"command": "curl {GONE}"}}'), "high", f"it sends {GONE}",
        Command(f"curl {GONE}", "", None, "", 0.0), f"curl {GONE}", "digest",
    )  # fmt: skip


def test_titles_names_and_waiting_words_are_cleaned() -> None:
    said, clean = (UserMessage("u", (Text(f"use {text}"),), "prompt") for text in (KEY, GONE))
    assert redact_record(TaskChanged(f"use {KEY}", "idle")) == TaskChanged(f"use {GONE}", "idle")
    assert redact_record(Renamed(KEY, KEY)) == Renamed(GONE, GONE)
    assert redact_record(QueueChanged((said,), (said,))) == QueueChanged((clean,), (clean,))


def test_what_holds_no_text_of_others_is_the_same_object() -> None:
    for record in (BudgetSet(1.0, 2), ToolBegun("c", "run_shell"), TaskChanged("plain", "idle")):
        assert redact_record(record) is record
    job = JobChanged("j", "running", {"pid": 3, "words": ["make"]})
    assert redact_record(job) == job


def test_the_command_of_a_job_is_cleaned_in_its_data() -> None:
    job = JobChanged(
        "j", "running", {"command": f"curl {KEY}", "list": [KEY, {"deep": KEY}], "pid": 3, KEY: 1}
    )
    clean = {"command": f"curl {GONE}", "list": [GONE, {"deep": GONE}], "pid": 3, GONE: 1}
    assert redact_record(job) == JobChanged("j", "running", clean)


def test_a_reply_that_is_still_streaming_is_cleaned() -> None:
    parts = (Thinking(f"I see {KEY}", "signed"), Text(f"It is {KEY}"), Call("c", "x", f'"{KEY}"'))
    reply = AssistantMessage("r", parts, "m", "chat", "stop", NO_USAGE)
    assert redact_reply(reply).parts == (
        Thinking(f"I see {GONE}", ""), Text(f"It is {GONE}"), Call("c", "x", f'"{GONE}"'),
    )  # fmt: skip
