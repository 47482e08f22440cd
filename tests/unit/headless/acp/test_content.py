"""Content blocks of an editor's prompt."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from acp import schema
from acp.helpers import audio_block, embedded_text_resource, image_block, resource_link_block, text_block

from buddy.agent.messages import Attachment, Image
from buddy.headless.acp.content import MAX_RESOURCE_CHARS, PromptContent, PromptError, read_prompt
from tests.fake_llm.pictures import png

PNG = base64.b64encode(png()).decode()


def resource(contents: Any) -> schema.EmbeddedResourceContentBlock:
    return schema.EmbeddedResourceContentBlock(type="resource", resource=contents)


def test_a_link_to_a_file_is_a_mention() -> None:
    blocks = [text_block("look at"), resource_link_block("b", "file:///project/a%20b.py"), text_block("now")]
    assert read_prompt(blocks) == PromptContent("look at @/project/a\\ b.py now", ())


def test_another_link_stays_text() -> None:
    blocks = [text_block("see"), resource_link_block("x", "https://example.org/x")]
    assert read_prompt(blocks).text == "see https://example.org/x"


def test_a_file_on_another_host_is_no_mention() -> None:
    assert "@" not in read_prompt([resource_link_block("x", "file://elsewhere/etc/passwd")]).text


def test_an_embedded_text_is_attached() -> None:
    content = read_prompt(
        [text_block("this:"), resource(embedded_text_resource("file:///project/a.py", "x = 1"))]
    )
    assert content.text == "this: /project/a.py"
    assert content.attached == (Attachment("/project/a.py", "\n\n[attached: /project/a.py]\nx = 1\n"),)


def test_a_picture_is_attached() -> None:
    assert read_prompt([image_block(PNG, "image/png")]).attached == (Image("image/png", PNG),)


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        ([], "the prompt is empty"),
        ([text_block("  ")], "the prompt is empty"),
        ([audio_block(PNG, "audio/wav")], "this kind of content"),
        ([image_block("no base64!", "image/png")], "not base64"),
        ([resource(embedded_text_resource("u:x", "x" * (MAX_RESOURCE_CHARS + 1)))], "at most"),
        (
            [resource(schema.BlobResourceContents(uri="u:x", blob=PNG, mime_type="application/pdf"))],
            "found app",
        ),
    ],
)
def test_other_prompts_are_refused_with_a_sentence(blocks: list[Any], why: str) -> None:
    with pytest.raises(PromptError, match=why):
        read_prompt(blocks)
