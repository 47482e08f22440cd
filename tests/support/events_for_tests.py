"""Events as a task board would send them, numbered and timed."""

from __future__ import annotations

import time

from buddy.agent import events as ev
from buddy.agent.display import NOTHING, Command, Display
from buddy.agent.messages import NO_USAGE, AssistantMessage, Call, Text, UserMessage


class Tape:
    """Makes `TaskEvent`s of one task. The clock moves when it is told to; `at=None`
    begins with the real time."""

    def __init__(self, task_id: int = 1, at: float | None = 100.0) -> None:
        self.task_id = task_id
        self.at = time.monotonic() if at is None else at
        self.seq = 0

    def event(self, event: ev.AgentUiEvent, *, after: float = 0.0) -> ev.TaskEvent:
        self.at += after
        self.seq += 1
        return ev.TaskEvent(self.task_id, self.seq, self.at, event)

    def turn(self, prompt: str = "go") -> ev.TaskEvent:
        return self.event(ev.TurnStarted((UserMessage("u1", (Text(prompt),), "prompt"),)))

    def reply(self) -> ev.TaskEvent:
        return self.event(ev.ReplyStarted("r1", "model"))

    def text(self, text: str, block: int = 0, *, after: float = 0.0) -> ev.TaskEvent:
        return self.event(ev.TextDelta("r1", block, text), after=after)

    def thinking(self, text: str, *, after: float = 0.0) -> ev.TaskEvent:
        return self.event(ev.ThinkingDelta("r1", 0, text), after=after)

    def reply_done(self, text: str = "", finish: str = "stop") -> ev.TaskEvent:
        message = AssistantMessage("r1", (Text(text),), "model", "chat", finish, NO_USAGE)
        return self.event(ev.ReplyFinished(message, ev.ReplyTiming(0.1, 0.2)))

    def tool(
        self, call_id: str = "c1", title: str = "run_shell pytest -q", *, begun: bool = True
    ) -> ev.TaskEvent:
        return self.event(ev.ToolStarted(Call(call_id, "run_shell", "{}"), "high", title, begun=begun))

    def tool_done(
        self, call_id: str = "c1", display: Display = NOTHING, *, status: str = "ok", seconds: float = 2.0
    ) -> ev.TaskEvent:
        return self.event(ev.ToolFinished(call_id, status, "text", display, seconds, cached=False))

    def asked(self, request_id: str = "q1", call_id: str = "c1", command: str = "git push") -> ev.TaskEvent:
        preview = Command(command, "", None, "", 0.0)
        return self.event(
            ev.ApprovalRequested(
                request_id,
                Call(call_id, "run_shell", "{}"),
                "high",
                "it pushes",
                preview,
                "git push *",
                "d" + request_id,
                "git push *",
                int(request_id[1:] or 1),
            )
        )

    def done(self, outcome: str = "completed", reason: str = "", *, seconds: float = 3.0) -> ev.TaskEvent:
        return self.event(ev.TurnFinished(outcome, reason, "", 1, seconds))
