"""One ACP session: an open buddy session, shown to an editor that answers its questions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from acp import RequestError, schema
from acp.helpers import update_agent_message_text
from acp.interfaces import Client
from pydantic import ValidationError

from buddy.agent.events import ApprovalAnswer, ApprovalRequested, ApprovalResolved, TaskEvent
from buddy.agent.host import Outcome
from buddy.agent.messages import AssistantMessage, UserPart
from buddy.app.session import Session
from buddy.config.settings import ConfigError
from buddy.headless.acp.content import PromptContent
from buddy.headless.acp.updates import (
    CallPlace,
    TurnUpdates,
    approval_content,
    approval_title,
    arguments_of,
    kind_of,
    replay,
)
from buddy.headless.running_tasks import RunningTasks
from buddy.safety.policy.decide import MODE_WORDS, MODES, Mode
from buddy.safety.sanitise import one_line
from buddy.tasks.approvals import AnswerRefused
from buddy.tasks.board import TaskError
from buddy.tasks.task import Task
from buddy.tools.ask_user import OpenQuestion, Unanswered

LAST_UPDATES_S = 2.0
MAX_PROMPTS = 100
"""Prompts of one session that may wait at the same time."""
WITHDRAWN = "the editor closed the question"
_STOP_REASONS: dict[str, schema.StopReason] = {"length": "max_tokens", "filter": "refusal"}
_ANSWERS: dict[str, ApprovalAnswer] = {"once": "once", "session": "session", "rule": "rule"}


class NoAnswer(Exception):
    """The editor did not answer a question; why."""


class EditorCommand(msgspec.Struct, frozen=True):
    """A slash command offered to the editor. `hint` is what follows its name, "" for nothing."""

    name: str
    description: str
    hint: str


class SlashCommands(Protocol):
    """The slash commands of a session, which a front end above this room provides."""

    def list(self) -> Sequence[EditorCommand]:
        """Return the commands that work in an editor."""
        ...

    async def run(self, line: str) -> str:
        """Carry out a line that begins with a slash; return what it prints. It may start a turn."""
        ...


class Capabilities(msgspec.Struct, frozen=True):
    """Abilities of the client beyond the protocol's minimum."""

    streams_terminals: bool
    reads_files: bool = False
    writes_files: bool = False


class EditorSession:
    """A session of an editor. Its tasks are buddy's; the editor prompts the one in the foreground."""

    def __init__(
        self, session: Session, client: Client, commands: SlashCommands, capabilities: Capabilities
    ) -> None:
        self.session = session
        self._client = client
        self._commands = commands
        self._capabilities = capabilities
        self._reader = session.board.reader()
        self._sending = asyncio.Lock()
        self._cancels = self._prompts = 0
        self._updates: dict[int, TurnUpdates] = {}
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._work = RunningTasks()
        self._pump = asyncio.create_task(self._send_events())
        session.questions.listeners.append(self._put_question)

    @property
    def id(self) -> str:
        """Return the session's id."""
        return self.session.session_id

    async def close(self) -> None:
        """Stop sending; questions that wait in the editor are given up."""
        await self.session.board.close()
        self._reader.close()
        await self._work.end()
        await asyncio.wait({self._pump}, timeout=LAST_UPDATES_S)
        self._pump.cancel()  # an editor that reads nothing more would keep it for good
        await asyncio.wait({self._pump})

    async def send(self, update: Any) -> None:
        """Send one update."""
        await self._client.session_update(self.id, update)

    async def replay(self) -> None:
        """Send the conversation in the foreground as it was."""
        task = self.session.board.task(self.session.board.focus)
        async with self._sending:
            for update in replay(task.history, self.session.tools.get, _place_of(task)):
                await self.send(update)

    async def offer_commands(self, notes: Sequence[str] = ()) -> None:
        """Tell the editor the slash commands there are, and notes about the start."""
        for note in notes:
            await self.send(update_agent_message_text(f"{one_line(note, 400)}\n\n"))
        offers = [
            schema.AvailableCommand(
                name=command.name,
                description=command.description,
                input=schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint=command.hint))
                if command.hint
                else None,
            )
            for command in self._commands.list()
        ]
        await self.send(
            schema.AvailableCommandsUpdate(
                session_update="available_commands_update", available_commands=offers
            )
        )

    async def prompt(self, content: PromptContent) -> schema.PromptResponse:
        """Run a prompt, or carry out a slash command, until the foreground task is quiet. Raises
        `RequestError` when the turn failed."""
        if self._prompts >= MAX_PROMPTS:
            raise RequestError.invalid_request({"details": f"{MAX_PROMPTS} prompts wait already"})
        self._prompts += 1
        try:
            return await self._run_prompt(content)
        finally:
            self._prompts -= 1

    async def _run_prompt(self, content: PromptContent) -> schema.PromptResponse:
        board = self.session.board
        task_id, mode = board.focus, self.session.policy.mode
        before = board.task(task_id).outcome
        if content.is_command:
            printed = await self._commands.run(content.text)
            if printed:
                await self.send(update_agent_message_text(printed))
        elif not await self._submit(task_id, content):
            return schema.PromptResponse(stop_reason="cancelled")
        task_id = board.focus
        outcome = await board.wait(task_id)
        await self._flush()
        if self.session.policy.mode != mode:
            await self._tell_mode()
        if outcome is None or outcome is before:  # a command that started no turn
            return schema.PromptResponse(stop_reason="end_turn")
        return schema.PromptResponse(stop_reason=_stop_reason(outcome))

    async def _submit(self, task_id: int, content: PromptContent) -> bool:
        """Submit a prompt; False where it was cancelled while its files were read."""
        cancels = self._cancels
        expanded = await self.session.expand(task_id, content.text) if content.text else None
        parts: tuple[UserPart, ...] = expanded.parts if expanded else ()
        for note in expanded.notes if expanded else ():
            await self.send(update_agent_message_text(f"{note}\n\n"))
        if self._cancels != cancels:
            return False
        try:
            await self.session.board.prompt(task_id, (*parts, *content.attached))
        except (TaskError, ConfigError) as error:
            raise RequestError.invalid_request({"details": str(error)}) from error
        return True

    def cancel(self) -> None:
        """Cancel the running turn of the foreground task, or the prompt that is about to begin one."""
        self._cancels += 1
        board = self.session.board
        board.cancel(board.focus)

    # -- modes and models ------------------------------------------------------------------------------------

    def modes(self) -> schema.SessionModeState:
        """Return the permission modes; yolo only where buddy was started with it."""
        current = self.session.policy.mode
        with_yolo = self.session.options.permission_mode == "yolo"
        names: list[Mode] = [mode for mode in MODES if mode != "yolo" or with_yolo]
        return schema.SessionModeState(
            current_mode_id=current,
            available_modes=[
                schema.SessionMode(id=mode, name=mode, description=MODE_WORDS[mode]) for mode in names
            ],
        )

    def set_mode(self, mode: str) -> None:
        """Change the permission mode. Raises `RequestError` for one that is not offered."""
        for name in MODES:
            if name == mode:
                try:
                    self.session.policy.set_mode(name)
                except ValueError as error:
                    raise RequestError.invalid_params({"details": str(error)}) from error
                self.session.board.inbox.reconsider()
                return
        raise RequestError.invalid_params(
            {"details": f"the mode is one of {', '.join(MODES)}; found {mode!r}"}
        )

    def options(self) -> list[schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean]:
        """Return the choices beside the mode: the model of the foreground task."""
        session = self.session
        task = session.board.task(session.board.focus)
        current = task.model or session.board.parts.model("").name
        names = dict.fromkeys([current, *sorted(session.settings.models)])
        choices = [schema.SessionConfigSelectOption(value=name, name=name) for name in names]
        return [
            schema.SessionConfigOptionSelect(
                type="select",
                id="model",
                name="Model",
                category="model",
                current_value=current,
                options=choices,
            )
        ]

    def set_option(self, option: str, value: str | bool) -> None:
        """Change a choice of `options`. Raises `RequestError`."""
        if option != "model" or not isinstance(value, str):
            raise RequestError.invalid_params({"details": f"expected the option model, found {option!r}"})
        try:
            self.session.board.change_model(self.session.board.focus, value)
        except (ConfigError, TaskError) as error:
            raise RequestError.invalid_params({"details": str(error)}) from error

    async def _tell_mode(self) -> None:
        await self.send(
            schema.CurrentModeUpdate(
                session_update="current_mode_update", current_mode_id=self.session.policy.mode
            )
        )

    # -- events ----------------------------------------------------------------------------------------------

    async def _send_events(self) -> None:
        while events := await self._reader.batch():
            async with self._sending:
                await self._send_batch(events)

    async def _flush(self) -> None:
        """Send what waits, so that nothing of a turn follows the response to its prompt."""
        async with self._sending:
            await self._send_batch(self._reader.drain())

    async def _send_batch(self, events: Sequence[TaskEvent]) -> None:
        for event in events:
            self._follow_approval(event)
            if event.task_id == self.session.board.focus:
                for update in self._updates_of(event.task_id).of(event.event):
                    await self.send(update)

    def _updates_of(self, task_id: int) -> TurnUpdates:
        place = _place_of(self.session.board.task(task_id))
        if task_id not in self._updates:
            self._updates[task_id] = TurnUpdates(
                self.session.tools.get, place, streams_terminals=self._capabilities.streams_terminals
            )
        self._updates[task_id].place = place  # a command may have sent the task to another machine
        return self._updates[task_id]

    # -- questions -------------------------------------------------------------------------------------------

    def _follow_approval(self, event: TaskEvent) -> None:
        """Ask for every task: a subagent's call needs the person as much as the foreground's."""
        match event.event:
            case ApprovalRequested() as request:
                self._asked[request.request_id] = self._work.start(self._ask_approval(event.task_id, request))
            case ApprovalResolved(request_id=request_id):
                asking = self._asked.pop(request_id, None)
                if asking is not None and asking is not asyncio.current_task():
                    asking.cancel()
            case _:
                pass  # everything else is no question

    def _put_question(self, question: OpenQuestion) -> None:
        self._work.start(self._ask_question(question))

    async def _ask_approval(self, task_id: int, request: ApprovalRequested) -> None:
        answer, words = await self._request_permission(task_id, request)
        try:
            self.session.board.inbox.answer(request.request_id, request.digest, answer, words=words)
        except AnswerRefused:
            pass  # answered or withdrawn meanwhile

    async def _request_permission(
        self, task_id: int, request: ApprovalRequested
    ) -> tuple[ApprovalAnswer, str]:
        updates = self._updates_of(task_id)
        content = approval_content(request, updates.place)
        call = schema.ToolCallUpdate(
            tool_call_id=updates.call_id(request.call.id),
            title=approval_title(request),
            kind=kind_of(self.session.tools.get(request.call.name)),
            status="pending",
            raw_input=arguments_of(request.call),
            content=list(content),
        )
        try:
            outcome = await self._choose(call, _choices(request))
        except NoAnswer as error:
            return "denied", f"the editor could not ask: {error}"
        if not isinstance(outcome, schema.AllowedOutcome):
            self.session.board.cancel(task_id)
            return "denied", WITHDRAWN
        return _ANSWERS.get(outcome.option_id, "denied"), ""

    async def _choose(
        self, call: schema.ToolCallUpdate, choices: list[schema.PermissionOption]
    ) -> schema.AllowedOutcome | schema.DeniedOutcome:
        """Have the editor ask. Raises `NoAnswer` for a failure and for an answer of another form."""
        try:
            return (await self._client.request_permission(self.id, call, choices)).outcome
        except ValidationError as error:
            raise NoAnswer("its answer is not what the protocol says") from error
        except (RequestError, ConnectionError) as error:
            raise NoAnswer(str(error)) from error

    async def _ask_question(self, question: OpenQuestion) -> None:
        """Ask the model's question with its options as choices. A question without options is withdrawn: an
        editor has no field for words, and the model is told that nobody answered."""
        options = question.question.options
        if not options:
            await self.send(update_agent_message_text(f"\n{question.question.question}\n"))
            self.session.questions.withdraw_number(question.number)
            return
        choices = [
            schema.PermissionOption(
                option_id=str(number), name=one_line(option.text(), 200), kind="allow_once"
            )
            for number, option in enumerate(options, 1)
        ]
        skip = schema.PermissionOption(option_id="skip", name="Skip this question", kind="reject_once")
        call = schema.ToolCallUpdate(
            tool_call_id=f"question-{question.number}",
            title=one_line(question.question.question, 200),
            kind="think",
            status="pending",
        )
        try:
            outcome = await self._choose(call, [*choices, skip])
        except NoAnswer:
            self.session.questions.withdraw_number(question.number)
            return
        if isinstance(outcome, schema.AllowedOutcome) and outcome.option_id != "skip":
            try:
                label = question.question.resolve(outcome.option_id)
                self.session.questions.answer_number(question.number, label)
            except (Unanswered, ValueError):
                # The turn ended meanwhile, or the editor answered with what was no option.
                self.session.questions.withdraw_number(question.number)
        else:
            self.session.questions.withdraw_number(question.number)


def _place_of(task: Task) -> CallPlace:
    return CallPlace(task.workspace.boundary.cwd, task.workspace.target)


def _choices(request: ApprovalRequested) -> list[schema.PermissionOption]:
    choices = [schema.PermissionOption(option_id="once", name="Yes", kind="allow_once")]
    if request.session:
        name = one_line(f"Yes, this session: {request.session}", 200)
        choices.append(schema.PermissionOption(option_id="session", name=name, kind="allow_always"))
    if request.rule:
        name = one_line(f"Yes, always: {request.rule}", 200)
        choices.append(schema.PermissionOption(option_id="rule", name=name, kind="allow_always"))
    return [*choices, schema.PermissionOption(option_id="no", name="No", kind="reject_once")]


def _stop_reason(outcome: Outcome) -> schema.StopReason:
    """Return why a turn ended. Raises `RequestError` for a failure, which an editor shows as such."""
    match outcome.outcome:
        case "cancelled":
            return "cancelled"
        case "limit":
            return "max_turn_requests"
        case "failed":
            details = {"details": outcome.reason}
            raise (
                RequestError.auth_required(details)
                if outcome.error == "auth"
                else RequestError(-32603, outcome.reason or "the turn failed", details)
            )
        case "completed":
            last = outcome.messages[-1] if outcome.messages else None
            finish = last.finish if isinstance(last, AssistantMessage) else "stop"
            return _STOP_REASONS.get(finish, "end_turn")
