"""The agent side of ACP: requests of an editor become operations on sessions."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from acp import PROTOCOL_VERSION, RequestError, schema
from acp.interfaces import Client

from buddy import __version__
from buddy.app.options import UsageError
from buddy.app.session import Session
from buddy.config.settings import ConfigError
from buddy.headless.acp.content import PromptError, read_prompt
from buddy.headless.acp.conversation import Capabilities, EditorSession, SlashCommands
from buddy.headless.acp.editor_files import EditorFileRequests
from buddy.headless.acp.handed_servers import HandedServersError, read_handed
from buddy.headless.acp.message_reader import TOO_LONG
from buddy.headless.running_tasks import RunningTasks
from buddy.sessions.errors import SessionError
from buddy.sessions.folder import SESSION_ID
from buddy.sessions.listing import SessionSummary
from buddy.workspace.files.editor_buffers import EditorBuffers

_CLOSED = -32002
"""The protocol's code for a resource that is not there."""
MAX_SESSIONS = 50


class Sessions(Protocol):
    """Opens sessions for the server; provided by the command line."""

    def open(
        self,
        folder: str,
        extra: Sequence[str],
        *,
        reference: str,
        fork: bool,
        servers: str,
        buffers: EditorBuffers | None,
    ) -> contextlib.AbstractAsyncContextManager[Session]:
        """Open a session of a folder: a new one, or the one of a reference or a copy of it. `servers` are
        the MCP servers of the editor as JSON, "" for none; `buffers` are its open files."""
        ...

    def commands(self, session: Session) -> SlashCommands:
        """Return the slash commands of an open session."""
        ...

    def list(self, folder: str) -> Sequence[SessionSummary]:
        """Return the saved sessions of a folder."""
        ...


class BuddyAgent:
    """The methods an editor calls, by the names the package expects."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._conversations: dict[str, EditorSession] = {}
        self._stacks: dict[str, contextlib.AsyncExitStack] = {}
        self._capabilities = Capabilities(streams_terminals=False)
        self._client: Client | None = None
        self._later = RunningTasks()

    def on_connect(self, conn: Client) -> None:
        """Take the connection the package has made."""
        self._client = conn

    async def aclose(self) -> None:
        """Close every session: cancel what runs and save."""
        for session_id in list(self._conversations):
            await self._close(session_id)
        await self._later.end()

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **_meta: Any,
    ) -> schema.InitializeResponse:
        """Agree on version 1 and say what buddy can do."""
        meta = (client_capabilities.field_meta if client_capabilities else None) or {}
        files = client_capabilities.fs if client_capabilities else None
        self._capabilities = Capabilities(
            streams_terminals=meta.get("terminal_output") is True,
            reads_files=files is not None and files.read_text_file is True,
            writes_files=files is not None and files.write_text_file is True,
        )
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="buddy", title="buddy", version=__version__),
            auth_methods=[],
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
        )

    async def authenticate(self, method_id: str, **_meta: Any) -> schema.AuthenticateResponse | None:
        """Refuse: keys are set in the terminal."""
        raise RequestError.invalid_params(
            {"details": f"there is no method {method_id!r}; set a key with `buddy login` in a terminal"}
        )

    async def new_session(
        self, cwd: str, additional_directories: list[str] | None = None, mcp_servers: Any = None, **_meta: Any
    ) -> schema.NewSessionResponse:
        """Open a new session in a folder."""
        conversation = await self._open(cwd, additional_directories, mcp_servers, "")
        return schema.NewSessionResponse(
            session_id=conversation.id, modes=conversation.modes(), config_options=conversation.options()
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Any = None,
        additional_directories: list[str] | None = None,
        **_meta: Any,
    ) -> schema.LoadSessionResponse:
        """Open a saved session and send its conversation before the answer."""
        conversation = self._conversations.get(session_id)
        if conversation is None:
            reference = _saved_id(session_id)
            conversation = await self._open(cwd, additional_directories, mcp_servers, reference)
        await conversation.replay()
        return schema.LoadSessionResponse(modes=conversation.modes(), config_options=conversation.options())

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: Any = None,
        **_meta: Any,
    ) -> schema.ResumeSessionResponse:
        """Open a saved session without showing it again."""
        conversation = self._conversations.get(session_id)
        if conversation is None:
            reference = _saved_id(session_id)
            conversation = await self._open(cwd, additional_directories, mcp_servers, reference)
        return schema.ResumeSessionResponse(modes=conversation.modes(), config_options=conversation.options())

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: Any = None,
        **_meta: Any,
    ) -> schema.ForkSessionResponse:
        """Open a copy of a saved session."""
        reference = _saved_id(session_id)
        conversation = await self._open(cwd, additional_directories, mcp_servers, reference, fork=True)
        return schema.ForkSessionResponse(
            session_id=conversation.id, modes=conversation.modes(), config_options=conversation.options()
        )

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_meta: Any
    ) -> schema.ListSessionsResponse:
        """List the saved sessions of a folder, newest first."""
        folder = cwd or os.getcwd()
        if not os.path.isdir(folder):
            return schema.ListSessionsResponse(sessions=[])
        summaries = await _answer_errors(asyncio.to_thread(self._sessions.list, folder))
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=summary.session_id,
                    cwd=folder,
                    title=summary.name or summary.title or None,
                    updated_at=_iso(summary.last_at),
                )
                for summary in summaries
                if summary.matters() and not summary.foreign
            ]
        )

    async def close_session(self, session_id: str, **_meta: Any) -> schema.CloseSessionResponse:
        """Close a session: cancel its turns and save it."""
        self._conversation(session_id)
        await self._close(session_id)
        return schema.CloseSessionResponse()

    async def set_session_mode(
        self, session_id: str, mode_id: str, **_meta: Any
    ) -> schema.SetSessionModeResponse:
        """Change the permission mode."""
        self._conversation(session_id).set_mode(mode_id)
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_meta: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Change the model."""
        conversation = self._conversation(session_id)
        conversation.set_option(config_id, value)
        return schema.SetSessionConfigOptionResponse(config_options=list(conversation.options()))

    async def prompt(self, session_id: str, prompt: list[Any], **_meta: Any) -> schema.PromptResponse:
        """Run a prompt to its end."""
        conversation = self._conversation(session_id)
        try:
            content = read_prompt(prompt)
        except PromptError as error:
            raise RequestError.invalid_params({"details": str(error)}) from error
        return await conversation.prompt(content)

    async def cancel(self, session_id: str, **_meta: Any) -> None:
        """Cancel the running prompt; one that is not there needs none."""
        conversation = self._conversations.get(session_id)
        if conversation is not None:
            conversation.cancel()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Refuse methods of other agents, and requests that were too long to be read."""
        if method == TOO_LONG:
            raise RequestError.invalid_request({"details": str(params.get("details", ""))[:200]})
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore notifications of other agents."""

    # -- sessions --------------------------------------------------------------------------------------------

    def _conversation(self, session_id: str) -> EditorSession:
        conversation = self._conversations.get(session_id)
        if conversation is None:
            shown = session_id[:100]
            raise RequestError(_CLOSED, f"no open session {shown}", {"sessionId": shown})
        return conversation

    async def _open(
        self, cwd: str, extra: Sequence[str] | None, handed: Any, reference: str, *, fork: bool = False
    ) -> EditorSession:
        if not os.path.isabs(cwd) or "\0" in cwd or not os.path.isdir(cwd):
            raise RequestError.invalid_params({"details": f"cwd: expected an absolute folder, found {cwd!r}"})
        if self._client is None:
            raise RequestError.internal_error({"details": "not connected"})
        if len(self._conversations) >= MAX_SESSIONS:
            raise RequestError.invalid_request(
                {"details": f"{MAX_SESSIONS} sessions are open; close one with session/close"}
            )
        stack = contextlib.AsyncExitStack()
        try:
            servers, notes = read_handed(handed)
        except HandedServersError as error:
            raise RequestError.invalid_params({"details": str(error)}) from error
        requests = EditorFileRequests(self._client, asyncio.get_running_loop())
        opening = self._sessions.open(
            cwd,
            extra or (),
            reference=reference,
            fork=fork,
            servers=servers,
            buffers=self._buffers(requests, (cwd, *(extra or ()))),
        )
        session = await _answer_errors(stack.enter_async_context(opening))
        requests.session_id = session.session_id
        conversation = EditorSession(
            session, self._client, self._sessions.commands(session), self._capabilities
        )
        stack.push_async_callback(conversation.close)
        self._conversations[conversation.id] = conversation
        self._stacks[conversation.id] = stack
        # In its own task: it begins when the response to the request is on its way.
        self._later.start(conversation.offer_commands(notes))
        return conversation

    def _buffers(self, requests: EditorFileRequests, folders: Sequence[str]) -> EditorBuffers | None:
        """Return the open files of an editor that shows them; writing alone is no use, since nobody could
        look whether it was done."""
        if not self._capabilities.reads_files:
            return None
        return EditorBuffers(requests, folders, writes=self._capabilities.writes_files)

    async def _close(self, session_id: str) -> None:
        del self._conversations[session_id]
        await self._stacks.pop(session_id).aclose()


def _saved_id(session_id: str) -> str:
    """Return the id of a saved session. Raises `RequestError` for what is none: names and beginnings of ids,
    which the command line takes, could lead to another session than the editor means."""
    if SESSION_ID().fullmatch(session_id) is None:
        details = f"sessionId: expected an id as session/list returns it, found {session_id[:100]!r}"
        raise RequestError.invalid_params({"details": details})
    return session_id


T = TypeVar("T")


async def _answer_errors(work: Awaitable[T]) -> T:
    """Turn an error of opening or listing sessions into the response an editor shows."""
    try:
        return await work
    except (UsageError, ConfigError, SessionError) as error:
        raise RequestError.invalid_params({"details": str(error)}) from error
    except OSError as error:
        details = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise RequestError.internal_error({"details": details}) from error


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
