"""Requests for approval, answered by the program that drives buddy.

A program that is gone, answers with an error or with what is no answer denies. An allowed call may get
another input, which the policy judges again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from buddy.agent.events import ApprovalRequested, ApprovalResolved
from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import Tool, ToolError
from buddy.app.session import Session
from buddy.extend.tool_names import claude_names
from buddy.headless.control import ControlChannel
from buddy.headless.input_lines import InputError, as_object
from buddy.headless.running_tasks import RunningTasks
from buddy.safety.policy.approval_text import missing_approval
from buddy.safety.policy.decide import mode_by_name
from buddy.safety.policy.rules import RuleSet
from buddy.safety.policy.rules_loading import rules_of_claude
from buddy.safety.policy.session import Policy
from buddy.tasks.approvals import AnswerRefused, OpenRequest
from buddy.tasks.hook_points import call_fields
from buddy.tools.ask_user import OpenQuestion

MAX_REASON_CHARS = 2_000
MAX_UPDATES = 100


class PermissionRequests:
    """Puts the open requests of a session to the program. `interrupt` ends the turn for a denial that asks
    for it; `warn` writes a sentence for the user."""

    def __init__(
        self,
        session: Session,
        channel: ControlChannel,
        *,
        interrupt: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self._session = session
        self._channel = channel
        self._interrupt = interrupt
        self._warn = warn
        self._reader = session.board.reader()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._work = RunningTasks()
        self._asking_questions: dict[int, asyncio.Task[None]] = {}
        session.questions.listeners.append(self._put_question)
        session.questions.close_listeners.append(self._take_back_question)

    async def run(self) -> None:
        """Answer requests until cancelled."""
        try:
            while events := await self._reader.batch():
                for task_event in events:
                    match task_event.event:
                        case ApprovalRequested() as request:
                            asking = self._work.start(self._ask(task_event.task_id, request))
                            self._asking[request.request_id] = asking
                        case ApprovalResolved(request_id=request_id):
                            done = self._asking.pop(request_id, None)
                            if done is not None and done is not asyncio.current_task():
                                done.cancel()
                        case _:
                            pass  # everything else is no question
        finally:
            self._reader.close()
            await self._work.end()

    def _put_question(self, question: OpenQuestion) -> None:
        self._asking_questions[question.number] = self._work.start(self._ask_question(question))

    def _take_back_question(self, number: int) -> None:
        asking = self._asking_questions.pop(number, None)
        if asking is not None and asking is not asyncio.current_task():
            asking.cancel()

    async def _ask(self, task_id: int, event: ApprovalRequested) -> None:
        board = self._session.board
        waiting = next(
            (request for request in board.inbox.waiting() if request.event.request_id == event.request_id),
            None,
        )
        tool = board.parts.tools.get(event.call.name)
        if waiting is None or tool is None:
            return  # answered meanwhile
        try:
            name, values = describe_call(tool, event.call.arguments)
            request = {
                "subtype": "can_use_tool",
                "tool_name": name,
                "input": values,
                "permission_suggestions": self._suggestions(waiting),
                "blocked_path": None,
                "decision_reason": event.reason,
                "description": event.reason,
                "tool_use_id": event.call.id,
                "agent_id": str(task_id) if board.task(task_id).parent else None,
            }
            answer = await self._channel.ask(request)
            allowed, words, arguments = read_answer(answer, values)
        except Exception as error:  # noqa: BLE001 - a call that nobody answers waits for ever
            answer, allowed, words, arguments = {}, False, f"the program gave no permission: {error}", ""
        try:
            board.inbox.answer(
                event.request_id,
                event.digest,
                "once" if allowed else "denied",
                words=words,
                arguments=arguments,
            )
        except AnswerRefused:
            return  # answered or withdrawn meanwhile
        # Only now: the updates may decide this very request, and its changed arguments would be lost.
        if allowed:
            self._apply(answer.get("updatedPermissions"))
        if not allowed and answer.get("interrupt") is True:
            self._interrupt()

    def _suggestions(self, request: OpenRequest) -> list[dict[str, Any]]:
        """Return the updates of the permissions that would let the call run; each was tried."""
        parts = self._session.board.parts
        missing = missing_approval(request.facts, request.verdict, parts.policy, parts.clock.wall())
        updates: list[dict[str, Any]] = []
        if missing.rules:
            rules = [_rule_object(entry) for entry in missing.rules]
            updates.append(
                {"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}
            )
        if missing.mode:
            updates.append({"type": "setMode", "mode": "acceptEdits", "destination": "session"})
        return updates

    def _apply(self, updates: object) -> None:
        """Apply the updates of an answer, all or none: one that fails may be a restriction."""
        if not updates:
            return
        policy = self._session.policy
        try:
            changes = read_updates(updates, policy)
        except (InputError, ValueError) as error:
            self._warn(f"updatedPermissions were left out: {error}")
            return
        for change in changes:
            change()
        self._session.board.inbox.reconsider()

    async def _ask_question(self, question: OpenQuestion) -> None:
        """Put a question of the model to the program, as a call of AskUserQuestion whose answer is in its
        input."""
        asked = question.question
        values = {
            "questions": [
                {
                    "question": asked.question,
                    "header": asked.header,
                    "options": [msgspec.to_builtins(option) for option in asked.options],
                    "multiSelect": asked.multiple,
                }
            ]
        }
        request = {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": values}
        questions = self._session.questions
        try:
            answer = await self._channel.ask({**request, "permission_suggestions": [], "tool_use_id": None})
            updated = as_object(answer.get("updatedInput") or {})
            words = as_object(updated.get("answers") or {}).get(asked.question)
            if answer.get("behavior") != "allow" or not isinstance(words, str) or not words.strip():
                raise InputError("no answer")
            questions.answer_number(question.number, words)
        except Exception:  # noqa: BLE001 - as above
            questions.withdraw_number(question.number)


def describe_call(tool: Tool, arguments: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the input of a call as programs for Claude know them. A patch of several files
    keeps its own name: as an edit it would hide all files but one."""
    try:
        several = call_fields(tool, tool.decode(arguments))
    except (ArgumentsError, ToolError):
        return claude_names(tool.name)[0], {}
    if len(several) > 1:
        return tool.name, {**several[0]["tool_input"], "file_path": ""}
    return several[0]["tool_name"], several[0]["tool_input"]


def read_answer(answer: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[bool, str, str]:
    """Return whether an answer allows the call, the reason, and the changed arguments as JSON ("": as they
    are). Raises `InputError`."""
    match answer.get("behavior"):
        case "allow":
            updated = answer.get("updatedInput")
            if updated is None or updated == values:
                return True, "", ""
            return True, "", msgspec.json.encode(as_object(updated)).decode()
        case "deny":
            message = answer.get("message")
            return False, message[:MAX_REASON_CHARS] if isinstance(message, str) else "", ""
        case other:
            raise InputError(f"expected behavior allow or deny, found {str(other)[:60]!r}")


def read_updates(updates: object, policy: Policy) -> list[Callable[[], None]]:
    """Return the changes that updates of the permissions ask for, for this session only. Raises `InputError`
    and `ValueError`."""
    if not isinstance(updates, list) or len(cast("list[Any]", updates)) > MAX_UPDATES:
        raise InputError(f"expected a list of at most {MAX_UPDATES} updates")
    changes: list[Callable[[], None]] = []
    for update in map(as_object, cast("list[Any]", updates)):
        match update.get("type"):
            case "addRules":
                changes.append(_adding(_rules_of(update), policy))
            case "setMode":
                mode = mode_by_name(str(update.get("mode")))
                if mode is None or mode == "yolo":
                    raise InputError(f"the mode {str(update.get('mode'))[:60]!r} can't be chosen here")
                changes.append(lambda mode=mode: policy.set_mode(mode))
            case kind:
                raise InputError(f"expected addRules or setMode, found {str(kind)[:60]!r}")
    return changes


def _adding(rules: RuleSet, policy: Policy) -> Callable[[], None]:
    def add() -> None:
        policy.rules = policy.rules.merge(rules)

    return add


def _rules_of(update: Mapping[str, Any]) -> RuleSet:
    behavior, given = update.get("behavior"), update.get("rules")
    if behavior not in ("allow", "deny", "ask") or not isinstance(given, list):
        raise InputError("addRules: expected behavior allow, deny or ask, and a list of rules")
    entries: list[str] = []
    for rule in map(as_object, cast("Sequence[Any]", given)):
        name, content = rule.get("toolName"), rule.get("ruleContent")
        if not isinstance(name, str) or not name or not isinstance(content, str | None):
            raise InputError("addRules: expected rules with toolName and ruleContent as text")
        entries.append(f"{name}({content})" if content else name)
    rules = rules_of_claude({behavior: entries}, "user", "the program")
    if rules.errors:
        raise InputError(rules.errors[0])
    return rules


def _rule_object(entry: str) -> dict[str, str]:
    name, bracket, content = entry.partition("(")
    return {"toolName": name, "ruleContent": content[:-1]} if bracket else {"toolName": name}
