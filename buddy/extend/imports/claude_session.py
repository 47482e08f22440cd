"""Sessions of Claude Code: lines of a file, read as a conversation.

The lines form a tree; the branch that ends last is the conversation. Calls that ran at the same time are
branches of their own, so that the results of all but one lie beside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from buddy.agent.messages import AssistantPart, Call, Image, Text, UserPart
from buddy.extend.imports.findings import Table, section
from buddy.extend.imports.imported_history import ImportedHistory, blocks_of, images_of
from buddy.extend.tool_names import buddy_call

_CONTEXT = ("<local-command", "<command-name>", "<command-message>", "Caveat: The messages below")


def talk_of(lines: Sequence[Table]) -> list[Table]:
    """Return the lines of the person, the model and its tools, without those of subagents."""
    return [node for node in _nodes(lines).values() if node.get("type") in ("user", "assistant")]


def read_lines(lines: Sequence[Table]) -> tuple[ImportedHistory, list[str]]:
    """Return the conversation and its names, the last one last."""
    conversation = ImportedHistory()
    nodes = _nodes(lines)
    branch = _branch(nodes, talk_of(lines)[-1])
    for node in branch:
        if node.get("type") in ("user", "assistant") and not node.get("isMeta"):
            _add(conversation, section(node, "message"))
    for node in nodes.values():  # those of the branch are there already: a call has one result
        _add_results(conversation, blocks_of(section(node, "message").get("content")))
    titles = [str(line["summary"]) for line in lines if line.get("type") == "summary" and line.get("summary")]
    return conversation, titles


def _nodes(lines: Sequence[Table]) -> dict[str, Table]:
    return {str(line["uuid"]): line for line in lines if line.get("uuid") and not line.get("isSidechain")}


def _branch(nodes: dict[str, Table], last: Table) -> list[Table]:
    """Return the lines from the first one to `last`."""
    branch: list[Table] = []
    node: Table | None = last
    while node is not None and len(branch) <= len(nodes):
        branch.append(node)
        node = nodes.get(str(node.get("parentUuid")))
    return branch[::-1]


def _add(conversation: ImportedHistory, message: Table) -> None:
    blocks = blocks_of(message.get("content"))
    if not isinstance(message.get("content"), list):
        blocks = [{"type": "text", "text": message.get("content")}]
    if message.get("role") == "assistant":
        conversation.answer(str(message.get("model", "")), _answer(blocks))
        return
    _add_results(conversation, blocks)
    prompt: list[UserPart] = []
    for block in blocks:
        match block.get("type"):
            case "text" if not str(block.get("text", "")).startswith(_CONTEXT):
                prompt.append(Text(str(block.get("text") or "")))
            case "image":
                prompt += images_of(section(block, "source"))
            case _:
                pass
    conversation.ask(prompt)


def _add_results(conversation: ImportedHistory, blocks: Sequence[Table]) -> None:
    for block in blocks:
        if block.get("type") == "tool_result":
            text, images = _result(block.get("content"))
            call_id, failed = str(block.get("tool_use_id", "")), bool(block.get("is_error"))
            conversation.result(call_id, text, images, failed=failed)


def _answer(blocks: Sequence[Table]) -> list[AssistantPart]:
    parts: list[AssistantPart] = []
    for block in blocks:
        match block.get("type"):
            case "text" if block.get("text"):
                parts.append(Text(str(block["text"])))
            case "tool_use":
                tool, arguments = buddy_call(str(block.get("name", "")), section(block, "input"))
                parts.append(Call(str(block.get("id", "")), tool, json.dumps(arguments)))
            case _:
                pass
    return parts


def _result(content: object) -> tuple[str, tuple[Image, ...]]:
    """Return the text and the pictures of a tool's result."""
    blocks = blocks_of(content)
    if not isinstance(content, list):
        return str(content or ""), ()
    text = "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    pictures = [section(block, "source") for block in blocks if block.get("type") == "image"]
    return text, tuple(image for picture in pictures for image in images_of(picture))
