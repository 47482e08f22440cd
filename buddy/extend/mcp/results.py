"""Answers of servers made fit for a model and a screen: cleaned, bounded, the whole on disk where it is
long."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import os
from collections.abc import Callable

import msgspec

from buddy.agent.display import Plain
from buddy.agent.formatting import format_count, format_size
from buddy.agent.messages import Image
from buddy.agent.tool import ToolError, ToolResult
from buddy.extend.mcp.records import Block, CallOutcome, TextBlock
from buddy.safety.paths import make_private_folders
from buddy.safety.sanitise import clean, visible
from buddy.tools.files.read_pictures import picture
from buddy.workspace.files.picture_header import media_type_of

MAX_CHARS = 100_000
"""About 25,000 tokens."""
HEAD_CHARS = 16_000
TAIL_CHARS = 4_000
MAX_PICTURES = 8
MAX_PICTURE_BYTES = 5_000_000


class ResultMaker(msgspec.Struct, frozen=True):
    """Makes results. `folder` takes what is too long; `redact` takes secrets out of what goes there."""

    folder: str
    redact: Callable[[str], str]
    new_id: Callable[[], str]

    async def to_result(self, server: str, outcome: CallOutcome) -> ToolResult:
        """Return the result of a call."""
        return await asyncio.to_thread(self._make, server, outcome)

    def _make(self, server: str, outcome: CallOutcome) -> ToolResult:
        pictures: list[Image] = []
        parts = [self._part(server, block, pictures) for block in outcome.blocks]
        text = clean("\n".join(parts)) or "(the tool returned nothing)"
        shown = text if len(text) <= MAX_CHARS else self._shorten(server, text)
        first = shown.strip().split("\n", 1)[0]
        return ToolResult(shown, Plain(first[:200], shown), tuple(pictures), ok=not outcome.is_error)

    def _part(self, server: str, block: Block, pictures: list[Image]) -> str:
        if isinstance(block, TextBlock):
            return block.text
        about = visible(f"{block.media_type} {block.name}".strip())[:200]
        try:
            data = base64.b64decode(block.data, validate=True)
        except (binascii.Error, ValueError):
            return f"[{about}: not valid base64, left out]"
        if len(data) <= MAX_PICTURE_BYTES and len(pictures) < MAX_PICTURES and media_type_of(data):
            # Sent as it is, one that a provider refuses would end this turn and every later one.
            with contextlib.suppress(ToolError):
                encoded = picture(data, f"picture {len(pictures) + 1}")
                pictures.append(encoded.image)
                return f"[{encoded.summary}]"
        path, problem = self._write(server, "bin", data)
        return f"[{about}, {format_size(len(data))}: {path or problem}]"

    def _shorten(self, server: str, text: str) -> str:
        path, problem = self._write(server, "txt", self.redact(text).encode("utf-8", "replace"))
        where = f"the whole is in {path}; read_file and grep look into it" if path else problem
        left_out = format_count(len(text) - HEAD_CHARS - TAIL_CHARS, "character")
        return f"{text[:HEAD_CHARS]}\n[… {left_out} left out; {where} …]\n{text[-TAIL_CHARS:]}"

    def _write(self, server: str, ending: str, data: bytes) -> tuple[str, str]:
        """Return the path of a new file with the data, or the reason why there is none."""
        path = os.path.join(self.folder, f"mcp-{server}-{self.new_id()}.{ending}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            make_private_folders(self.folder)
            with open(os.open(path, flags, 0o600), "wb") as file:
                file.write(data)
        except OSError as error:
            return "", f"it could not be kept: {error.strerror}"
        return path, ""
