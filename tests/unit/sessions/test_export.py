"""A session given away: complete, readable, without keys."""

from __future__ import annotations

import json

import pytest

from buddy.agent.messages import Call, Image, ServerItem, Text, Thinking, UserMessage
from buddy.sessions.export import ExportFormat, export_session
from buddy.sessions.records import TaskChanged
from buddy.sessions.replay import SessionState, TaskRecord
from tests.support.session_files import replied, result, said

KEY = "sk-live-0123456789"
STATE = SessionState(
    name=f"look at\n{KEY}",
    tasks=(
        TaskRecord(
            1,
            TaskChanged(f"fix {KEY}", "idle"),
            (
                UserMessage("u1", (Text(f"use {KEY} <script>"), Image("image/png", "AAAA")), "prompt"),
                replied(
                    "a1",
                    Thinking(f"hm {KEY}", ""),
                    "I **look**",
                    Call("c1", "grep", f'{{"pattern": "{KEY}"}}'),
                    ServerItem({"found": KEY}),
                ),
                result("t1", "c1", f"```\n{KEY}\n```"),
                said("u2", "lone \ud800"),
            ),
        ),
    ),
)


def redact(text: str) -> str:
    return text.replace(KEY, "[key]")


@pytest.mark.parametrize("form", ["markdown", "html", "json"])
def test_no_key_is_in_an_export(form: ExportFormat):
    text = export_session(STATE, form, redact)
    assert KEY not in text
    assert "[key]" in text
    text.encode("utf-8")


def test_markdown_keeps_code_in_fences_that_hold_it():
    text = export_session(STATE, "markdown", redact)
    assert text.startswith("# look at [key]\n\n## Task 1: fix [key]\n\n### You\n\nuse [key] <script>\n")
    assert "### Result of run_shell (ok)\n\n````\n```\n[key]\n```\n````\n" in text
    assert "[picture, image/png]" in text
    headings = [line for line in text.split("\n") if line.startswith("### ")]
    assert headings[:5] == ["### You", "### Thinking", "### m", "### Calls grep", "### Done by the provider"]
    assert "### m\n\nI **look**\n" in text, "an answer does not stand under the heading of the thoughts"


def test_html_runs_nothing():
    text = export_session(STATE, "html", redact)
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "default-src 'none'" in text


HOSTILE = (
    "<script>alert(1)</script>",
    "</pre></title><img src=x onerror=alert(1)>",
    "&lt;script&gt;",
    "\x1b[2J\x1b]0;title\x07",
    "\x9b2J",
    "\u202egnp.exe",
    "a\rb\x08\x00",
    f"{KEY[:6]}\x1b[0m{KEY[6:]}",
    f"{KEY[:6]}\u200b\u202e{KEY[6:]}",
    "\x1b]0;ti\ttle\x07\x1b[3\t1m",
)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_ATTACK10_markdown_keeps_no_control_character(hostile: str):
    task = TaskRecord(1, TaskChanged(hostile, "idle"), (said("u1", hostile), result("t1", "c1", hostile)))
    text = export_session(SessionState(name=hostile, tasks=(task,)), "markdown", redact)
    assert not {char for char in text if not (char.isprintable() or char in "\n\t")}
    assert KEY not in text


def test_markdown_keeps_the_tabs_and_blank_lines_of_code():
    task = TaskRecord(1, TaskChanged("t", "idle"), (result("t1", "c1", "all:\n\tmake\t-j\n\n\n\n\nend"),))
    text = export_session(SessionState(tasks=(task,)), "markdown", redact)
    assert "```\nall:\n\tmake\t-j\n\n\n\n\nend\n```" in text


@pytest.mark.parametrize("hostile", HOSTILE)
def test_html_makes_hostile_text_inert_wherever_it_stands(hostile: str):
    task = TaskRecord(1, TaskChanged(hostile, "idle"), (said("u1", hostile), result("t1", "c1", hostile)))
    text = export_session(SessionState(name=hostile, tasks=(task,)), "html", redact)
    body = text.partition("<body>")[2]
    assert not {char for char in text if not (char.isprintable() or char == "\n")}
    assert KEY not in text
    tags = {part.partition(">")[0] for part in body.split("<")[1:]}
    assert tags == {"h1", "/h1", "h2", "/h2", "h3", "/h3", "pre", "/pre", "/body", "/html"}
    assert text.count("<title>") == 1


def test_json_holds_everything():
    data = json.loads(export_session(STATE, "json", lambda text: text))
    assert data["tasks"][0]["history"][2]["text"] == f"```\n{KEY}\n```"
    assert data["name"] == STATE.name


def test_a_session_without_a_name_has_a_heading():
    assert export_session(SessionState(), "markdown", redact) == "# A session\n"
