"""Sessions of Claude Code and Codex, as those programs write them, become histories that buddy continues."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from buddy.agent.messages import AssistantMessage, Call, Image, ToolMessage, UserMessage, text_of
from buddy.extend.imports.transcripts import (
    Transcript,
    TranscriptError,
    find_transcripts,
    name_transcripts,
    read_transcript,
)
from tests.support.legal_history import is_legal

ROOT = "/home/me/shop"
SESSION = "4f35e220-c435-4cf7-b9b9-f40426042847"
KEY = "-".join(("sk", "ant", "api03", "A1b2C3d4" * 5))


def claude_line(
    at: int, kind: str, content: object, *, parent: int | None = -1, **fields: Any
) -> dict[str, Any]:
    role = "assistant" if kind == "assistant" else "user"
    return {
        "uuid": f"u{at}",
        "parentUuid": (f"u{at - 1}" if at > 1 else None) if parent == -1 else parent and f"u{parent}",
        "isSidechain": False,
        "cwd": ROOT,
        "sessionId": SESSION,
        "timestamp": "2026-05-26T07:27:40.079Z",
        "type": kind,
        "message": {"role": role, "model": "claude-opus-4-5", "content": content},
        **fields,
    }


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: object, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def read(
    tmp_path: Path, lines: Iterable[object], root: str = ROOT, file: str = f"{SESSION}.jsonl"
) -> Transcript | None:
    path = tmp_path / file
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return read_transcript(str(path), root)


def shown(transcript: Transcript | None) -> list[tuple[str, str]]:
    assert transcript is not None
    assert is_legal(transcript.messages) == []
    return [(type(message).__name__, text_of(message)) for message in transcript.messages]


def calls(transcript: Transcript | None) -> list[tuple[str, dict[str, Any]]]:
    assert transcript is not None
    return [
        (part.name, json.loads(part.arguments))
        for message in transcript.messages
        if isinstance(message, AssistantMessage)
        for part in message.parts
        if isinstance(part, Call)
    ]


def test_a_conversation_of_claude_code(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        [
            {"type": "summary", "summary": "Fix the parser", "leafUuid": "u7"},
            claude_line(1, "user", "fix the parser"),
            claude_line(2, "assistant", [{"type": "thinking", "thinking": "hm", "signature": "x"}]),
            claude_line(3, "assistant", [text("I look.")]),
            claude_line(
                4, "assistant", [use("t1", "Read", file_path="a.py"), use("t2", "Bash", command="ls")]
            ),
            claude_line(5, "user", [result("t1", "1\tx"), result("t2", [text("a.py")], is_error=True)]),
            claude_line(6, "user", "meta", isMeta=True),
            claude_line(7, "assistant", [text(f"Done, {KEY}")]),
            '{"torn": ',
        ],
    )
    assert shown(transcript) == [
        ("UserMessage", "fix the parser"),
        ("AssistantMessage", "I look."),
        ("ToolMessage", "1\tx"),
        ("ToolMessage", "a.py"),
        ("AssistantMessage", shown(transcript)[-1][1]),
    ]
    assert calls(transcript) == [("read_file", {"path": "a.py"}), ("run_shell", {"command": "ls"})]
    assert transcript is not None
    assert (transcript.title, transcript.name()) == ("Fix the parser", "claude-4f35e220")
    assert [one.status for one in transcript.messages if isinstance(one, ToolMessage)] == ["ok", "error"]
    assert KEY not in str(transcript.messages)
    assert transcript.created_at == 1779780460.079


def test_the_branch_that_ends_last_is_the_conversation(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        [
            claude_line(1, "user", "one"),
            claude_line(2, "assistant", [text("first answer")]),
            claude_line(3, "user", "taken back"),
            claude_line(4, "user", "instead", parent=2),
            claude_line(5, "assistant", [text("second answer")]),
            claude_line(6, "assistant", [text("of a subagent")], isSidechain=True),
        ],
    )
    assert [words for _kind, words in shown(transcript)] == [
        "one",
        "first answer",
        "instead",
        "second answer",
    ]


def test_after_a_compaction_its_summary_begins_the_conversation(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        [
            claude_line(1, "user", "long ago"),
            claude_line(2, "system", "", parent=None, subtype="compact_boundary"),
            claude_line(3, "user", "what was done: all of it", isCompactSummary=True),
            claude_line(4, "assistant", [text("on we go")]),
        ],
    )
    assert [words for _kind, words in shown(transcript)] == ["what was done: all of it", "on we go"]


def test_pictures_come_along(tmp_path: Path) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    transcript = read(tmp_path, [claude_line(1, "user", [picture, text("what is this?")])])
    assert transcript is not None
    (message,) = transcript.messages
    assert isinstance(message, UserMessage)
    assert message.parts[0] == Image("image/png", "aGk=")


def codex(*payloads: dict[str, Any], cwd: str = ROOT) -> list[object]:
    meta = {"id": "019a2d7a-41c4-78b1-b7cc-a45d62a89cd5", "cwd": cwd, "timestamp": "2026-06-01T00:00:00Z"}
    lines: list[object] = [{"type": "session_meta", "payload": meta}]
    return [
        *lines,
        *({"type": payload.pop("line", "response_item"), "payload": payload} for payload in payloads),
    ]


def said(role: str, words: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


def shell(call_id: str, arguments: object, name: str = "shell") -> dict[str, Any]:
    return {"type": "function_call", "name": name, "call_id": call_id, "arguments": json.dumps(arguments)}


def output(call_id: str, words: object) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": words}


def test_a_conversation_of_codex(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        codex(
            said("developer", "rules"),
            said("user", "<environment_context>x</environment_context>"),
            {"line": "turn_context", "model": "gpt-5-codex"},
            said("user", "list the files"),
            {"line": "event_msg", "type": "user_message", "message": "list the files"},
            {"type": "reasoning", "encrypted_content": "x"},
            shell("c1", {"command": ["bash", "-lc", "ls | sort"]}),
            output("c1", "a.py\n"),
            {"type": "custom_tool_call", "name": "apply_patch", "call_id": "c2", "input": "*** Begin Patch"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": {"ok": True}},
            said("assistant", "One file."),
        ),
        file="rollout-2026-06-01T00-00-00-019a2d7a-41c4-78b1-b7cc-a45d62a89cd5.jsonl",
    )
    assert shown(transcript) == [
        ("UserMessage", "list the files"),
        ("AssistantMessage", ""),
        ("ToolMessage", "a.py\n"),
        ("AssistantMessage", ""),
        ("ToolMessage", '{"ok": true}'),
        ("AssistantMessage", "One file."),
    ]
    assert calls(transcript) == [
        ("run_shell", {"command": "ls | sort"}),
        ("apply_patch", {"patch": "*** Begin Patch"}),
    ]
    assert transcript is not None
    assert (transcript.title, transcript.name()) == ("list the files", "codex-62a89cd5")
    assert {one.model for one in transcript.messages if isinstance(one, AssistantMessage)} == {"gpt-5-codex"}


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ({"command": ["git", "log", "-3"]}, "git log -3"),
        ({"command": ["bash", "-c", "ls"]}, "ls"),
        ({"command": "ls -l"}, "ls -l"),
        ({"cmd": "ls -l"}, "ls -l"),
        ({"command": ["ls"]}, "ls"),
    ],
)
def test_shell_calls_of_codex(tmp_path: Path, arguments: dict[str, Any], command: str) -> None:
    lines = codex(said("user", "x"), shell("c1", arguments, "exec_command"), output("c1", ""))
    assert calls(read(tmp_path, lines)) == [("run_shell", {"command": command})]


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["no json"],
        ["[1]", "null", "7"],
        codex(said("user", "x"), cwd="/home/me/other"),
        codex(said("user", "x"), cwd="/home/me/shopping"),
        codex(),
        codex({"type": "message", "role": "user", "content": 7}),
        codex({"type": "message", "role": "user", "content": ["x", None]}),
        codex(shell("c1", 7), output("c2", "no call")),
        [claude_line(1, "user", "x", cwd="/home/me/other")],
        [claude_line(1, "user", 7)],
        [claude_line(1, "user", [7, None, {"type": "tool_result"}])],
        [claude_line(1, "user", "x", message=7)],
        ["[" * 100_000],
    ],
)
def test_files_of_other_folders_and_other_contents_give_no_session(
    tmp_path: Path, lines: list[object]
) -> None:
    transcript = read(tmp_path, lines)
    assert transcript is None or shown(transcript) == [("UserMessage", "7")]


@pytest.mark.parametrize("inside", ["../../x", "\x1b[31m\x07", "", SESSION[::-1]])
def test_the_id_comes_from_the_name_of_the_file(tmp_path: Path, inside: str) -> None:
    transcript = read(tmp_path, [claude_line(1, "user", "x", sessionId=inside)])
    assert transcript is not None
    assert transcript.id == SESSION


@pytest.mark.parametrize(
    ("file", "name"),
    [("a\x1b[31m\x07b.jsonl", "claude-a31mb"), ("..x y.jsonl", "claude-xy"), ("…\x07.jsonl", None)],
)
def test_an_id_has_only_letters_digits_and_hyphens(tmp_path: Path, file: str, name: str | None) -> None:
    transcript = read(tmp_path, [claude_line(1, "user", "x")], file=file)
    assert (transcript and transcript.name()) == name


def test_every_session_has_a_name_of_its_own(tmp_path: Path) -> None:
    files = ("4f35e220-c1.jsonl", "4f35e220-c2.jsonl", "b/4f35e220-c1.jsonl")
    (tmp_path / "b").mkdir()
    transcripts = [read(tmp_path, [claude_line(1, "user", "x")], file=file) for file in files]
    names = name_transcripts(one for one in reversed(transcripts) if one)
    assert list(names) == ["claude-4f35e220", "claude-4f35e220-c", "claude-4f35e220-c1"]
    again = name_transcripts([*names.values(), *[one for one in transcripts if one]])
    assert list(again)[-1].startswith("claude-4f35e220")
    assert len(again) == 6


def test_a_circle_of_parents_ends(tmp_path: Path) -> None:
    transcript = read(
        tmp_path, [claude_line(1, "user", "a", parent=2), claude_line(2, "user", "b", parent=1)]
    )
    assert transcript is not None


def test_a_pipe_is_an_error_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(TranscriptError, match="can't be read"):
        read_transcript(str(tmp_path / "a.jsonl"), ROOT)


def test_files_are_found_by_folder(tmp_path: Path) -> None:
    wanted = [
        tmp_path / ".claude/projects/-home-me-shop/a.jsonl",
        tmp_path / ".codex/sessions/2026/06/01/rollout-x.jsonl",
    ]
    others = [
        tmp_path / ".claude/projects/-home-me-other/b.jsonl",
        tmp_path / ".claude/projects/-home-me-shop/notes.txt",
        tmp_path / ".codex/sessions/2026/06/01/other.jsonl",
    ]
    for path in [*wanted, *others]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert list(find_transcripts({"HOME": str(tmp_path)}, ROOT)) == [str(path) for path in wanted]
    assert list(find_transcripts({"HOME": "/nowhere"}, ROOT)) == []
