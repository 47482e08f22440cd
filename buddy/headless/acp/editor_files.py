"""The editor's files: `fs/read_text_file` and `fs/write_text_file`, asked from a worker thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from typing import Any, TypeVar

from acp import RequestError
from acp.interfaces import Client
from pydantic import ValidationError

from buddy.agent.tool import ToolError
from buddy.safety.sanitise import one_line
from buddy.workspace.files.editor_buffers import NotInEditorError

ANSWER_S = 10.0
_STOPPED_S = 2.0
"""Beyond the limit for the answer: the loop may have stopped."""

T = TypeVar("T")


class EditorFileRequests:
    """Requests about files of one session, whose id is known once it is open."""

    def __init__(
        self, client: Client, loop: asyncio.AbstractEventLoop, *, answer_s: float = ANSWER_S
    ) -> None:
        self.session_id = ""
        self._client = client
        self._loop = loop
        self._answer_s = answer_s

    def read(self, path: str) -> str:
        """Return the text of a file as the editor has it. Raises `NotInEditorError`, `ToolError`."""
        return self._wait(
            "read", path, self._client.read_text_file(session_id=self.session_id, path=path)
        ).content

    def write(self, path: str, text: str) -> None:
        """Give a file a new text. Raises `ToolError`."""
        self._wait(
            "write", path, self._client.write_text_file(session_id=self.session_id, path=path, content=text)
        )

    def _wait(self, doing: str, path: str, request: Coroutine[Any, Any, T]) -> T:
        """Wait for an answer, in a thread that is not the loop's."""
        answer = asyncio.run_coroutine_threadsafe(_within(request, self._answer_s), self._loop)
        shown = one_line(path, 200)
        try:
            return answer.result(self._answer_s + _STOPPED_S)
        except (TimeoutError, concurrent.futures.TimeoutError) as error:
            answer.cancel()
            raise ToolError(
                f"the editor did not answer within {self._answer_s:.0f} s to {doing} {shown}: try "
                "again, or ask the person to look at it"
            ) from error
        except RequestError as error:
            words = one_line(f"{error}", 300)
            if doing == "read":
                raise NotInEditorError(words) from error
            raise ToolError(f"the editor could not write {shown}: {words}. Nothing was changed") from error
        except ValidationError as error:
            raise ToolError(
                f"the editor's answer to {doing} {shown} is not what the protocol says; nothing was done"
            ) from error
        except (ConnectionError, concurrent.futures.CancelledError) as error:
            raise ToolError(f"the editor is gone; {shown} was left alone") from error


async def _within(request: Coroutine[Any, Any, T], seconds: float) -> T:
    async with asyncio.timeout(seconds):
        return await request
