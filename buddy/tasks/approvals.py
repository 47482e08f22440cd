"""The approvals inbox: questions to the person about single calls, and their answers.

Each question is closed exactly once: answered, decided by a changed policy, or withdrawn because its task
ended or got new instructions. An answer counts only with the request id and the digest of what was shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from buddy.agent.events import AgentUiEvent, ApprovalAnswer, ApprovalRequested, ApprovalResolved
from buddy.agent.host import Allowed, Decision, Denied, Withdrawn
from buddy.safety.policy.decide import Facts, Verdict
from buddy.safety.policy.rules import Rule
from buddy.safety.policy.session import NO_CALL_LIMITS, CallLimits, Policy, is_answer_to


class OpenRequest(msgspec.Struct, frozen=True):
    """An open question. `since` is in seconds of the board's clock."""

    task_id: int
    since: float
    event: ApprovalRequested
    facts: Facts
    verdict: Verdict
    limits: CallLimits = NO_CALL_LIMITS

    @property
    def number(self) -> int:
        """Return the number the person types for it (`/ok 3`)."""
        return self.event.number


class AnswerRefused(Exception):
    """An answer that fits no open question."""


Emit = Callable[[int, AgentUiEvent], None]
RecordApproval = Callable[[int, ApprovalRequested | ApprovalResolved], Awaitable[None]]


class Inbox:
    """The open questions of a session, oldest first."""

    def __init__(
        self,
        *,
        policy: Policy,
        emit: Emit,
        record: RecordApproval,
        now: Callable[[], float],
        wall: Callable[[], float],
        remember: Callable[[tuple[Rule, ...], float | None], None],
        save: Callable[[tuple[Rule, ...]], None],
    ) -> None:
        self._policy = policy
        self._emit = emit
        self._record = record
        self._now = now
        self._wall = wall
        self._remember = remember
        self._save = save
        self._open: dict[str, OpenRequest] = {}
        self._futures: dict[str, asyncio.Future[Decision]] = {}
        self._count = 0

    def waiting(self) -> tuple[OpenRequest, ...]:
        """Return the open questions, oldest first."""
        return tuple(self._open.values())

    async def ask(
        self,
        task_id: int,
        event: ApprovalRequested,
        facts: Facts,
        verdict: Verdict,
        limits: CallLimits = NO_CALL_LIMITS,
    ) -> Decision:
        """Ask the person and wait for the answer. Cancellation withdraws the question."""
        self._count += 1
        event = msgspec.structs.replace(event, number=self._count)
        request = OpenRequest(task_id, self._now(), event, facts, verdict, limits)
        await self._record(task_id, event)
        self._futures[event.request_id] = asyncio.get_running_loop().create_future()
        self._open[event.request_id] = request
        self._emit(task_id, event)
        try:
            return await self._futures[event.request_id]
        finally:
            if event.request_id in self._open:
                self._close(request, "withdrawn", "the task ended", Withdrawn())
            del self._futures[event.request_id]

    def answer(
        self,
        request_id: str,
        digest: str,
        answer: ApprovalAnswer,
        *,
        words: str = "",
        until: float | None = None,
        arguments: str = "",
    ) -> None:
        """Record the answer. `arguments` replaces those of an approved call; they are judged again. Raises
        `AnswerRefused` when the question was closed or its text has changed."""
        request = self._open.get(request_id)
        if request is None:
            raise AnswerRefused("That request was already answered or withdrawn.")
        if not is_answer_to(
            request.event.request_id, request.event.digest, answer_id=request_id, answer_digest=digest
        ):
            raise AnswerRefused("The request changed after you read it. Read it again, then answer.")
        saved, remembered = request.verdict.rules_to_save, request.verdict.rules_for_session
        if (answer == "session" and not remembered) or (answer == "rule" and not saved):
            raise AnswerRefused("This call can't be remembered. Answer y or n.")
        decision: Decision = (
            Allowed(by_person=True, arguments=arguments)
            if answer in ("once", "session", "rule")
            else Denied(words or _NO_WORDS)
        )
        if answer == "session":
            self._remember(remembered, until)
        elif answer == "rule":
            self._save(saved)
            self._policy.learn(saved)
        self._close(request, answer, "you", decision, words)
        if answer in ("session", "rule"):
            self.reconsider()

    def withdraw(self, task_id: int, why: str) -> None:
        """Withdraw a task's questions: it got new instructions."""
        for request in list(self._open.values()):
            if request.task_id == task_id:
                self._close(request, "withdrawn", why, Withdrawn())

    def reconsider(self) -> None:
        """Close the questions that the changed policy (mode, grants, rules) now decides. What only the person
        may decide stays open."""
        for request in list(self._open.values()):
            verdict = self._policy.consider(request.facts, self._wall(), request.limits)
            if verdict.decision == "allow":
                self._close(request, "once", verdict.decided_by, Allowed())
            elif verdict.decision == "deny":
                self._close(request, "denied", verdict.decided_by, Denied(verdict.reason))

    def _close(
        self, request: OpenRequest, answer: ApprovalAnswer, by: str, decision: Decision, words: str = ""
    ) -> None:
        event = ApprovalResolved(request.event.request_id, answer, by)
        self._policy.log_answer(
            request.facts, request.verdict, _describe_answer(answer, by, words), self._wall()
        )
        del self._open[event.request_id]
        # Not awaited: an answer lost in a crash is asked for again.
        recording = asyncio.ensure_future(self._record(request.task_id, event))
        recording.add_done_callback(_ignore_failure)
        self._emit(request.task_id, event)
        future = self._futures[event.request_id]
        if not future.done():
            future.set_result(decision)


_NO_WORDS = "the person said no"
_YES = {"once": "once", "session": "for this session", "rule": "saved as a rule"}


def _describe_answer(answer: ApprovalAnswer, by: str, words: str) -> str:
    """Describe a closed question for the decision log."""
    if answer == "withdrawn":
        return f"withdrawn: {by}"
    if by != "you":
        return f"{'denied' if answer == 'denied' else 'allowed'} by {by}"
    if answer == "denied":
        return f"you denied: {words}" if words else "you denied"
    return f"you, {_YES[answer]}"


def _ignore_failure(task: asyncio.Future[None]) -> None:
    if not task.cancelled():
        task.exception()
