"""Sessions of Claude Code and Codex, as those programs write them, become histories that buddy continues."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from buddy.agent.messages import (
    INTERRUPTED_TEXT,
    AssistantMessage,
    Call,
    Image,
    ToolMessage,
    UserMessage,
    text_of,
)
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


def test_a_result_of_codex_tells_whether_its_command_failed(tmp_path: Path) -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    outputs: list[tuple[object, str, str]] = [
        (json.dumps({"output": "a.py", "metadata": {"exit_code": 0}}), "a.py", "ok"),
        (json.dumps({"output": "no", "metadata": {"exit_code": 2}}), "Exit code: 2\nno", "error"),
        ("Exit code: 0\nOutput:\nExit code: 1", "Exit code: 0\nOutput:\nExit code: 1", "ok"),
        ("Exit code: 1\nOutput:\nx", "Exit code: 1\nOutput:\nx", "error"),
        (
            "Wall time: 1 s\nProcess exited with code 127\nOutput:\n",
            "Wall time: 1 s\nProcess exited with code 127\nOutput:\n",
            "error",
        ),
        ('{"metadata": 7}', '{"metadata": 7}', "ok"),
        ("{torn", "{torn", "ok"),
        ([{"type": "input_text", "text": "seen"}, picture, {"type": "other"}, 7], "seen", "ok"),
    ]
    lines = codex(said("user", "x"))
    for at, (words, _text, _status) in enumerate(outputs):
        lines += codex(shell(f"c{at}", {"cmd": "ls"}), output(f"c{at}", words))[1:]
    transcript = read(tmp_path, lines)
    assert transcript is not None
    results = [one for one in transcript.messages if isinstance(one, ToolMessage)]
    assert [(one.text, one.status) for one in results] == [case[1:] for case in outputs]
    assert results[-1].images == (Image("image/png", "aGk="),)


def test_results_follow_their_calls_whatever_came_between(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        codex(
            said("user", "look"),
            shell("c1", {"cmd": "ls"}),
            shell("c2", {"cmd": "pwd"}),
            said("user", "and hurry"),
            output("c2", "second"),
            output("c1", "first"),
            shell("c3", {"cmd": "make"}),
            said("user", "stop"),
        ),
    )
    assert shown(transcript) == [
        ("UserMessage", "look"),
        ("AssistantMessage", ""),
        ("ToolMessage", "first"),
        ("ToolMessage", "second"),
        ("UserMessage", "and hurry"),
        ("AssistantMessage", ""),
        ("ToolMessage", INTERRUPTED_TEXT),
        ("UserMessage", "stop"),
    ]


def test_of_a_compaction_with_an_encrypted_summary_everything_before_stays(tmp_path: Path) -> None:
    encrypted = {"line": "compacted", "message": "", "replacement_history": [{"type": "compaction"}]}
    transcript = read(tmp_path, codex(said("user", "one"), said("assistant", "done"), encrypted))
    assert [words for _kind, words in shown(transcript)] == ["one", "done"]
    readable = {"line": "compacted", "message": "what was done"}
    transcript = read(tmp_path, codex(said("user", "one"), readable, said("user", "two")))
    assert [words for _kind, words in shown(transcript)] == ["what was done", "two"]


@pytest.mark.parametrize(
    ("count", "rest"),
    [(1, ["one", "1", "three"]), (2, ["three"]), (9, ["three"]), (0, ["one", "1", "two", "", "r", "three"])],
)
def test_prompts_that_were_taken_back_are_left_out(tmp_path: Path, count: int, rest: list[str]) -> None:
    transcript = read(
        tmp_path,
        codex(
            said("user", "one"),
            said("assistant", "1"),
            said("user", "two"),
            shell("c1", {"cmd": "ls"}),
            output("c1", "r"),
            said("user", "<turn_aborted>x</turn_aborted>"),
            {"line": "event_msg", "type": "thread_rolled_back", "num_turns": count},
            output("c1", "late"),
            said("user", "three"),
        ),
    )
    assert [words for _kind, words in shown(transcript)] == rest


@pytest.mark.parametrize(
    "context",
    [
        "<recommended_plugins>x</recommended_plugins>",
        "<turn_aborted>x</turn_aborted>",
        "<skill>x</skill>",
        "<subagent_notification>x</subagent_notification>",
        "\n<environment_context>x</environment_context>",
    ],
)
def test_what_codex_puts_into_prompts_is_no_prompt(tmp_path: Path, context: str) -> None:
    transcript = read(tmp_path, codex(said("user", context), said("user", "go on")))
    assert shown(transcript) == [("UserMessage", "go on")]
    assert read(tmp_path, codex(said("user", context))) is None


def test_the_title_is_the_persons_words_and_a_name_goes_before(tmp_path: Path) -> None:
    prompt = "# Context from my IDE setup:\n## Open tabs:\n- a.py\n\n## My request for Codex:\nfix a.py"
    transcript = read(tmp_path, codex(said("user", prompt)))
    assert transcript is not None
    assert (transcript.title, text_of(transcript.messages[0])) == ("fix a.py", prompt)
    name = {"line": "event_msg", "type": "thread_name_updated", "thread_name": f"the {KEY} parser"}
    transcript = read(tmp_path, codex(said("user", prompt), name))
    assert transcript is not None
    assert transcript.title.endswith(" parser")
    assert KEY not in transcript.title


def test_marks_around_a_picture_and_named_notes_are_left_out(tmp_path: Path) -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    marks = [{"type": "input_text", "text": words} for words in ('<image name="a">', "</image>", "see")]
    prompt = {"type": "message", "role": "user", "content": [marks[0], picture, *marks[1:]]}
    answer = "Yes.\n\n<oai-mem-citation>\nNOTES.md:1\n</oai-mem-citation>"
    transcript = read(tmp_path, codex(prompt, said("assistant", answer)))
    assert [words for _kind, words in shown(transcript)] == ["see", "Yes."]
    assert transcript is not None
    (message, _reply) = transcript.messages
    assert isinstance(message, UserMessage)
    assert message.parts[1:] == (Image("image/png", "aGk="),)


def test_calls_of_codex_keep_their_names_and_arguments(tmp_path: Path) -> None:
    named = shell("c1", {"id": 7}, "get_issue") | {"namespace": "mcp__tracker"}
    script = {"type": "custom_tool_call", "name": "exec", "call_id": "c2", "input": "text(1)"}
    broken = {**shell("c3", {}), "arguments": "{cmd: ls}"}
    assert calls(read(tmp_path, codex(said("user", "x"), named, script, broken))) == [
        ("mcp__tracker__get_issue", {"id": 7}),
        ("exec", {"input": "text(1)"}),
        ("shell", {"arguments": "{cmd: ls}"}),
    ]


@pytest.mark.parametrize(
    "note",
    [
        f"<environment_context>\n  <cwd>{ROOT}/sub</cwd>\n</environment_context>",
        f"<environment_context>\nCurrent working directory: {ROOT}\nApproval policy: never",
    ],
)
def test_a_session_of_codex_without_types_of_lines(tmp_path: Path, note: str) -> None:
    first = {"id": SESSION, "timestamp": "2025-08-19T08:25:08.061Z", "instructions": None, "git": {}}
    items = [said("user", note), {"record_type": "state"}, said("user", "go"), said("assistant", "gone")]
    transcript = read(tmp_path, [first, *items], file=f"rollout-{SESSION}.jsonl")
    assert shown(transcript) == [("UserMessage", "go"), ("AssistantMessage", "gone")]
    assert transcript is not None
    assert (transcript.program, transcript.created_at) == ("codex", 1755591908.061)
    assert read(tmp_path, [first, *items], "/home/me/other") is None
    named_by_the_person = said("user", f"<cwd>{ROOT}</cwd>")
    assert read(tmp_path, [first, named_by_the_person]) is None


@pytest.mark.parametrize(
    "meta",
    [
        {"source": {"subagent": {"thread_spawn": {"depth": 1}}}},
        {"source": {"subagent": "review"}},
        {"thread_source": "subagent"},
    ],
)
def test_a_session_of_a_subagent_of_codex_is_not_listed(tmp_path: Path, meta: dict[str, Any]) -> None:
    lines: list[Any] = codex(said("user", "check it"))
    assert read(tmp_path, lines) is not None
    lines[0]["payload"] |= meta
    assert read(tmp_path, lines) is None


def test_results_of_calls_of_claude_code_that_ran_at_once(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        [
            claude_line(1, "user", "look"),
            claude_line(2, "assistant", [use("t1", "Bash", command="ls")]),
            claude_line(3, "assistant", [use("t2", "Bash", command="pwd")]),
            claude_line(4, "user", [result("t1", "first")], parent=2),
            claude_line(5, "user", [result("t2", "second")], parent=3),
            claude_line(6, "assistant", [text("done")]),
        ],
    )
    assert [words for _kind, words in shown(transcript)] == ["look", "", "first", "second", "done"]


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
