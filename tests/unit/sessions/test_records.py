"""Records that are written before the loop has cleaned them carry no secrets; the others are left alone."""

from __future__ import annotations

from buddy.agent.display import Command
from buddy.agent.events import ApprovalRequested
from buddy.agent.messages import (
    NO_USAGE,
    AssistantMessage,
    Attachment,
    Call,
    Text,
    Thinking,
    UserMessage,
    UserPart,
)
from buddy.sessions.records import (
    BudgetSet,
    HistoryReplaced,
    JobChanged,
    Note,
    QueueChanged,
    Renamed,
    TaskChanged,
    ToolBegun,
    redact_record,
    redact_reply,
    upgrade_record,
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


def _prompt(*parts: str | UserPart) -> UserMessage:
    return UserMessage("u", tuple(Text(part) if isinstance(part, str) else part for part in parts), "prompt")


ANSWER = "[Background task 2, 'write tests', has finished. Its answer:]\nmany\nlines\n\n"
SHELL = "[I ran `ls` (exit code 0):]\na\n\n"
UNDONE = "[I took back main.py with /undo]\nThe files are as they were before it.\n\n"
LOST = "[buddy was lost while job 1 ran, and was started again. What became of the job:]\nit ended\n\n"
FILE = "\n\n[attached: main.py]\nprint(1)\n"
OLD = _prompt(ANSWER, SHELL, UNDONE, LOST, "look at @main.py", FILE)
NEW = _prompt(
    Attachment("Background task 2, 'write tests', has finished", ANSWER),
    Attachment("I ran `ls` (exit code 0)", SHELL),
    Attachment("I took back main.py with /undo", UNDONE),
    Attachment("buddy was lost while job 1 ran, and was started again", LOST),
    "look at @main.py",
    Attachment("attached: main.py", FILE),
)


def test_attachments_of_older_formats_become_parts_of_their_own() -> None:
    assert upgrade_record(OLD) == NEW
    assert upgrade_record(NEW) is NEW
    replaced = HistoryReplaced("rewind", 0, (OLD, AssistantMessage("r", (), "m", "chat", "stop", NO_USAGE)))
    assert upgrade_record(replaced) == HistoryReplaced("rewind", 0, (NEW, replaced.added[1]))
    old_note = Note("n", 1, "! ls", "a", "I ran `ls` (exit code 0):")
    new_note = Note("n", 1, "! ls", "a", "I ran `ls` (exit code 0)", lead=":")
    assert upgrade_record(QueueChanged((OLD,), (OLD,), (old_note,))) == QueueChanged(
        (NEW,), (NEW,), (new_note,)
    )
    assert upgrade_record(QueueChanged((), (), (new_note,))) == QueueChanged((), (), (new_note,))


def test_a_prompt_that_begins_like_an_old_note_stays_what_was_typed() -> None:
    for prompt in (_prompt("[I ran out of ideas"), _prompt(NEW.parts[0], "[I ran out of ideas")):
        assert upgrade_record(prompt) is prompt
