"""Sessions of Codex ("rollouts"): lines of a file, read as a conversation.

Since September 2025 each line is a record of a type with its payload, and the first names the folder; before,
the lines were the items of the conversation themselves, and the folder stood in a note of the context.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import cast

from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import AssistantPart, Call, Image, Text, UserPart
from buddy.extend.imports.findings import Table, section
from buddy.extend.imports.imported_history import ImportedHistory, blocks_of, images_of

_CONTEXT = (
    *("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions"),
    *("<recommended_plugins>", "<turn_aborted>", "<skill>", "<subagent_notification>"),
    *("<image>", "<image name=", "</image>"),
)
"""Beginnings of texts that Codex puts into prompts by itself, among them the marks around a picture."""
_SOURCES = pattern(r"\s*<oai-mem-citation>.*?</oai-mem-citation>", re.DOTALL)
"""The places of its notes that a model names for Codex, which does not show them."""
_REQUEST = "## My request for Codex:"
"""An editor puts the files it shows before the prompt, and this line between them."""
_SHELLS = frozenset({"shell", "shell_command", "exec_command", "container.exec"})
_FOLDER = pattern(r"<cwd>([^<\n]+)</cwd>|^Current working directory: (.+)$", re.MULTILINE)
_EXIT_CODE = pattern(r"^(?:Exit code:|Process exited with code) (-?[0-9]+)$", re.MULTILINE)


def is_rollout(first: Table) -> bool:
    """Tell whether a first line is one of Codex."""
    return first.get("type") == "session_meta" or is_bare(first)


def is_bare(first: Table) -> bool:
    """Tell whether a first line is one of the older form, which has neither types nor a folder."""
    return "type" not in first and {"id", "timestamp", "instructions"} <= first.keys()


def is_of_subagent(meta: Table) -> bool:
    """Tell whether a session is that of a subagent, whose result its caller's session has."""
    return "subagent" in section(meta, "source") or meta.get("thread_source") == "subagent"


def wrap_bare(items: Iterable[Table]) -> tuple[str, list[Table]]:
    """Return the folder that a session of the older form names ("" for none), and its lines in the form of
    today."""
    lines: list[Table] = [{"type": "response_item", "payload": item} for item in items]
    for line in lines:
        for text in _texts(section(line, "payload")):
            if found := _FOLDER().search(text) if text.startswith(_CONTEXT) else None:
                return (found[1] or found[2]).strip(), lines
    return "", lines


def read_lines(lines: Iterable[Table], model: str) -> tuple[ImportedHistory, list[str]]:
    """Return the conversation and its names, the last one last.

    A compaction whose summary can be read begins the conversation anew. Most are encrypted for the provider:
    everything before such a one stays.
    """
    conversation = ImportedHistory()
    names: list[str] = []
    for line in lines:
        payload = section(line, "payload")
        match line.get("type"), payload.get("type"):
            case "turn_context", _:
                model = str(payload.get("model") or model)
            case "compacted", _ if str(payload.get("message") or "").strip():
                conversation = ImportedHistory()
                conversation.ask([Text(str(payload["message"]))])
            case "event_msg", "thread_rolled_back":
                turns = payload.get("num_turns")
                conversation.rewind(turns if isinstance(turns, int) else 0)
            case "event_msg", "thread_name_updated" if name := payload.get("thread_name"):
                names.append(str(name))
            case "response_item", "message":
                _add_message(conversation, payload, model)
            case "response_item", "function_call" | "custom_tool_call" | "local_shell_call":
                conversation.answer(model, [_call(payload)])
            case "response_item", "function_call_output" | "custom_tool_call_output":
                text, images, failed = _result(payload.get("output"))
                conversation.result(str(payload.get("call_id", "")), text, images, failed=failed)
            case _:
                pass
    return conversation, names


def request_of(prompt: str) -> str:
    """Return the person's words of a prompt that an editor has put others before."""
    return prompt.rpartition(_REQUEST)[2].strip() or prompt


def _texts(payload: Table) -> list[str]:
    blocks = blocks_of(payload.get("content"))
    return [
        str(block.get("text", "")) for block in blocks if block.get("type") in ("input_text", "output_text")
    ]


def _add_message(conversation: ImportedHistory, payload: Table, model: str) -> None:
    texts = [text for text in _texts(payload) if text]
    if payload.get("role") == "assistant":
        answer: list[AssistantPart] = [
            Text(text) for text in (_SOURCES().sub("", one) for one in texts) if text
        ]
        conversation.answer(model, answer)
    elif payload.get("role") == "user":
        prompt: list[UserPart] = [Text(text) for text in texts if not text.lstrip().startswith(_CONTEXT)]
        conversation.ask([*prompt, *_images(blocks_of(payload.get("content")))])


def _images(blocks: Sequence[Table]) -> list[Image]:
    images: list[Image] = []
    for block in blocks:
        kind, _, data = str(block.get("image_url", "")).partition(";base64,")
        images += images_of({"media_type": kind.removeprefix("data:"), "data": data or None})
    return images


def _call(payload: Table) -> Call:
    """Return a call; Codex's shell takes a list of words, often of a shell and its script."""
    name, call_id = str(payload.get("name") or "shell"), str(payload.get("call_id", ""))
    server = str(payload.get("namespace") or "")
    if server.startswith("mcp__"):
        name = f"{server}__{name}"
    if payload.get("type") == "custom_tool_call":
        field = "patch" if name == "apply_patch" else "input"
        return Call(call_id, name, json.dumps({field: payload.get("input", "")}))
    arguments = _arguments(payload)
    command = arguments.get("command") or arguments.get("cmd")
    if name not in _SHELLS or not command:
        return Call(call_id, name, json.dumps(arguments))
    words = (
        [str(word) for word in cast("list[object]", command)] if isinstance(command, list) else [str(command)]
    )
    script = words[-1] if len(words) == 1 or words[:-1][-1] in ("-c", "-lc") else " ".join(words)
    return Call(call_id, "run_shell", json.dumps({"command": script}))


def _arguments(payload: Table) -> Table:
    """Return the arguments of a call; a text that is no object, which models write at times, as one field."""
    text = payload.get("arguments")
    if not isinstance(text, str):
        return section(payload, "action")
    with contextlib.suppress(ValueError, RecursionError):
        value: object = json.loads(text)
        if isinstance(value, dict):
            return cast(Table, value)
    return {"arguments": text} if text else {}


def _result(output: object) -> tuple[str, tuple[Image, ...], bool]:
    """Return the text and the pictures of a result, and whether its command failed."""
    if isinstance(output, list):
        blocks = blocks_of(cast("list[object]", output))
        text = "\n".join(str(block["text"]) for block in blocks if block.get("type") == "input_text")
        return text, tuple(_images(blocks)), _is_failed(text)
    if not isinstance(output, str):
        return json.dumps(output), (), False
    with contextlib.suppress(ValueError, RecursionError):
        value: object = json.loads(output) if output.startswith("{") else None
        if isinstance(value, dict) and "exit_code" in (metadata := section(cast(Table, value), "metadata")):
            code = metadata["exit_code"]
            text = str(cast(Table, value).get("output", ""))
            return (text, (), False) if code == 0 else (f"Exit code: {code}\n{text}", (), True)
    return output, (), _is_failed(output)


def _is_failed(text: str) -> bool:
    """Tell whether the lines that Codex writes before a command's output name an exit code other than 0."""
    head, mark, _output = text.partition("\nOutput:")
    code = _EXIT_CODE().search(head) if mark else None
    return code is not None and int(code[1]) != 0
