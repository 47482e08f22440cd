"""Commands about approvals and permissions."""

from __future__ import annotations

import asyncio
import os
import re
import time

from buddy.agent.formatting import format_count, whole_number
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.commands.tasks import duration_s
from buddy.repl.context import Context
from buddy.repl.render.numbers import clock_time
from buddy.repl.view.blocks import NoteBlock, PlainText, TableBlock
from buddy.safety.policy.decide import MODE_WORDS, MODES, Approvals, Grant, mode_by_name
from buddy.safety.policy.rules import Rule
from buddy.safety.policy.session import LogEntry, Policy
from buddy.safety.policy.try_command import judge_command
from buddy.safety.shell.analysis import Analyser
from buddy.safety.shell.context import TRUSTED_PATH
from buddy.tasks.approvals import OpenRequest

_WORDS = re.compile(r"(?:(?P<which>all|\d+)(?!\w|\.\d))?\s*(?P<rest>.*)", re.DOTALL)
"""An optional request, then the rest: `10m` and `allow it` name no request."""


def _requests(context: Context, which: str) -> tuple[OpenRequest, ...]:
    waiting = context.board.inbox.waiting()
    if not waiting:
        raise CommandError("No request is waiting for your approval.")
    if which == "all":
        return waiting
    if not which:
        return waiting[:1]
    number = whole_number(which)
    matches = tuple(request for request in waiting if request.number == number)
    if not matches:
        numbers = ", ".join(str(request.number) for request in waiting)
        raise CommandError(f"No request has the number {which[:30]}. Waiting: {numbers}.")
    return matches


@command(family="approvals", usage="[N|all] [TIME]", completes=("request",))
async def ok(context: Context, argument: str) -> None:
    """Approve the oldest request, request N or all; with a time, similar ones too until then"""
    parts = _WORDS.fullmatch(argument)
    which, rest = (parts["which"] or "", parts["rest"]) if parts else ("", argument)
    until = time.time() + duration_s(rest) if rest else None
    for request in _requests(context, which):
        answer = "session" if until is not None and request.verdict.rules_for_session else "once"
        context.board.inbox.answer(request.event.request_id, request.event.digest, answer, until=until)


@command(family="approvals", usage="[N|all] [WORDS]", completes=("request",))
async def no(context: Context, argument: str) -> None:
    """Deny the oldest request, request N or all; the words go to the model"""
    parts = _WORDS.fullmatch(argument)
    which, words = (parts["which"] or "", parts["rest"]) if parts else ("", argument)
    for request in _requests(context, which):
        context.board.inbox.answer(request.event.request_id, request.event.digest, "denied", words=words)


@command(family="approvals", usage="[ask|all|none|TIME]", choices=("ask", "all", "none", "10m"))
async def approve(context: Context, argument: str) -> None:
    """Show or set the answer to every request of this session: ask me, all (for a time), none"""
    policy = context.session.policy
    word = argument.strip()
    if not word:
        context.screen.print(NoteBlock("info", _describe_approvals(policy.approvals)))
        return
    if word in ("ask", "all", "none"):
        policy.approve("ask" if word == "ask" else "all" if word == "all" else "none")
    else:
        policy.approve("all", time.time() + duration_s(word.removeprefix("all").strip()))
    context.board.inbox.reconsider()
    level = "info" if policy.approvals.kind == "ask" else "warning"
    context.screen.print(NoteBlock(level, _describe_approvals(policy.approvals)))


def _describe_approvals(approvals: Approvals) -> str:
    """Describe what happens to requests from now on."""
    until = "this session" if approvals.until is None else f"until {clock_time(approvals.until)}"
    return {
        "ask": "Requests wait for your answer.",
        "all": f"Approving everything {until}. /approve ask stops it.",
        "none": "Denying every request. /approve ask stops it.",
    }[approvals.now(time.time())]


@command(
    family="approvals", usage="[plan|ask|edit|auto]", choices=("plan", "ask", "edit", "auto"), essential=True
)
async def mode(context: Context, argument: str) -> None:
    """Show or set the permission mode (Shift+Tab switches it)"""
    policy = context.session.policy
    if argument:
        wanted = mode_by_name(argument)
        if wanted is None:
            raise CommandError(f"the mode is one of {', '.join(MODES[:4])}; found {argument!r}")
        try:
            policy.set_mode(wanted)
        except ValueError as error:
            raise CommandError(str(error)) from error
        context.board.inbox.reconsider()
    context.screen.hint(f"mode: {policy.mode} · {MODE_WORDS[policy.mode]}")


@command(family="approvals")
async def plan(context: Context, argument: str) -> None:
    """Switch to the plan mode: read only"""
    await mode.run(context, "plan")


@command(
    family="approvals", usage="[log|test COMMAND|remove N]", choices=("log", "test", "remove"), essential=True
)
async def permissions(context: Context, argument: str) -> None:
    """List rules and grants, show the log of decisions, test a command, or remove a rule"""
    what, _, rest = argument.partition(" ")
    match what:
        case "" | "list":
            _list(context)
        case "log":
            _log(context)
        case "test":
            await _test(context, rest)
        case "remove":
            _remove(context, rest)
        case _:
            raise CommandError(f"expected list, log, test COMMAND or remove N, found {what!r}")


def _list(context: Context) -> None:
    policy = context.session.policy
    now = time.time()
    removable = _removable(policy)
    rows = [("", rule.origin, rule.shown, rule.why) for rule in policy.rules.rules if rule.origin != "saved"]
    rows += [
        (str(number), *_row(one, now, used=one not in policy.rules.unused))
        for number, one in enumerate(removable, 1)
    ]
    asks = policy.mode != "yolo" or policy.approvals.kind != "ask"
    answers = f" {_describe_approvals(policy.approvals)}" if asks else ""
    context.screen.print(NoteBlock("info", f"Mode {policy.mode}: {MODE_WORDS[policy.mode]}.{answers}"))
    for error in policy.rules.errors:
        context.screen.print(NoteBlock("error", error))
    if rows:
        context.screen.print(TableBlock(("number", "from", "rule", "why"), tuple(rows)))
    if removable:
        context.screen.print(NoteBlock("hint", "/permissions remove NUMBER deletes a grant or a saved rule"))
    head, *caveats = context.session.sandbox.status.lines()
    more = f"; {format_count(len(caveats), 'limit')}: /doctor lists them" if caveats else ""
    context.screen.print(NoteBlock("hint", f"sandbox: {head}{more}"))


def _removable(policy: Policy) -> tuple[Grant | Rule, ...]:
    """Return grants and saved rules in the order of the list's numbers."""
    saved = (rule for rule in policy.rules.rules if rule.origin == "saved")
    return (*policy.grants, *saved, *policy.rules.unused)


def _row(entry: Grant | Rule, now: float, *, used: bool) -> tuple[str, str, str]:
    if isinstance(entry, Rule):
        return ("saved", entry.shown, entry.why if used else "not used: it names no project")
    left = "" if entry.until is None else f"{entry.until - now:.0f} s left" if entry.holds(now) else "expired"
    return ("session", entry.rule.shown, left)


def _log(context: Context) -> None:
    entries = list(context.session.policy.log)[-30:]
    rows = tuple(
        (
            time.strftime("%H:%M:%S", time.localtime(entry.at)),
            _decision(entry),
            entry.tool,
            entry.subject,
            entry.verdict.reason,
        )
        for entry in entries
    )
    if not rows:
        raise CommandError("no call was decided yet")
    context.screen.print(TableBlock(("at", "decision", "tool", "about", "why"), rows))


def _decision(entry: LogEntry) -> str:
    return entry.answer or {"allow": "allowed", "deny": "denied", "ask": "asked"}[entry.verdict.decision]


async def _test(context: Context, text: str) -> None:
    if not text:
        raise CommandError("expected a command: /permissions test git push")
    policy = context.session.policy
    verdict = await asyncio.to_thread(  # in a thread: it may walk through the workspace
        judge_command,
        text,
        context.boundary,
        Analyser(),
        rules=policy.rules,
        grants=policy.grants,
        approvals=policy.approvals,
        mode=policy.mode,
        trusted=policy.trusted,
        search_path=os.environ.get("PATH") or TRUSTED_PATH,
        now=time.time(),
    )
    context.screen.print(
        PlainText(f"{verdict.decision}: {verdict.why} (decided by: {verdict.verdict.decided_by})")
    )


def _remove(context: Context, text: str) -> None:
    policy = context.session.policy
    removable = _removable(policy)
    if not removable:
        raise CommandError(
            "There is nothing to remove: no grant, no saved rule. Edit your own rules in your buddy.toml."
        )
    number = whole_number(text)
    if number is None or not 1 <= number <= len(removable):
        numbers = "1" if len(removable) == 1 else f"1 to {len(removable)}"
        raise CommandError(f"expected a number of /permissions ({numbers}), found {text[:30]!r}")
    entry = removable[number - 1]
    if isinstance(entry, Grant):
        policy.revoke(entry)
        context.screen.print(NoteBlock("info", f"removed for this session: {entry.rule.shown}"))
        return
    context.board.parts.forget_rule(entry)
    policy.unlearn(entry)
    context.screen.print(NoteBlock("info", f"removed from your saved rules: {entry.shown}"))
