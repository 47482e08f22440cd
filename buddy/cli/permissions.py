"""`buddy permissions`: lists the rules in force, or judges commands and explains the decisions; runs
nothing.

Every line of stdin gets an answer: a line that can't be judged is answered with "ask" and the reason.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, cast

import msgspec

from buddy.agent.schema import JsonError, parse_json
from buddy.app.options import Options, UsageError
from buddy.safety.paths import Boundary
from buddy.safety.policy.decide import Decision
from buddy.safety.policy.try_command import judge_command
from buddy.safety.sanitise import visible
from buddy.safety.shell.analysis import Analyser
from buddy.safety.shell.context import TRUSTED_PATH
from buddy.sessions.folder import workspace_root

MAX_LINE_BYTES = 1 << 20

Judge = Callable[[str], tuple[Decision, str]]
"""Returns decision and reason for a command."""


class PermissionLine(msgspec.Struct, frozen=True):
    """One line of stdin: a command, or the reason why it contains none."""

    identity: object
    command: str | None
    problem: str = ""


def permissions(options: Options, environment: Mapping[str, str]) -> int:
    """List the rules, or judge commands of the arguments or JSON lines {"id", "command"} of stdin: in this
    directory, taken as trusted, in the default mode, without a sandbox and without rules."""
    if options.words in ((), ("list",)):
        return _list(options, environment)
    if options.words[0] != "test":
        raise UsageError(
            'expected: buddy permissions [list], buddy permissions test "git log" …, or JSON lines on stdin '
            f"with test --json; found {visible(options.words[0])!r}"
        )
    if options.permission_mode or options.trust or options.config:
        raise UsageError(
            "permissions test judges in mode ask, in a trusted folder, without rules; "
            "leave out --permission-mode, --trust and --config"
        )
    judge = _judge_here(environment)
    commands = options.words[1:]
    if commands:
        for number, command in enumerate(commands, 1):
            _tell(PermissionLine(str(number), command), judge, as_json=options.json)
        return 0
    if sys.stdin.isatty():
        raise UsageError("expected commands as arguments, or JSON lines on stdin")
    asked = 0
    for request in requests(sys.stdin.buffer):
        _tell(request, judge, as_json=True)
        asked += 1
    if not asked:
        raise UsageError("expected commands as arguments, or JSON lines on stdin; stdin was empty")
    return 0


def _list(options: Options, environment: Mapping[str, str]) -> int:
    """Print the rules of the user, the saved ones and those of a trusted project, and what is wrong with
    them. Raises `ConfigError`."""
    from buddy.app.launch import find_launch, read_settings  # imported here, as the rest: `test` needs none
    from buddy.app.policy import RuleFiles
    from buddy.cli.tables import show
    from buddy.repl.view.blocks import TableBlock

    launch = find_launch(options, environment)
    loaded = read_settings(launch, options)
    rules = RuleFiles(launch, loaded).load(options.allow)
    rows = [(rule.origin, rule.decision, rule.shown, rule.why) for rule in rules.rules]
    rows += [(rule.origin, "unused", rule.shown, "it names no project") for rule in rules.unused]
    if options.json:
        entries = [dict(zip(("from", "decision", "rule", "why"), row, strict=True)) for row in rows]
        sys.stdout.write(json.dumps(entries, indent=1) + "\n")
    else:
        lines = [visible("  ".join(filter(None, (row[0], *row[2:])))) for row in rows]
        table = TableBlock(("from", "rule", "why"), tuple((row[0], *row[2:]) for row in rows))
        show(
            table,
            lines or ["no rules; buddy help permissions shows how to write one"],
            options,
            environment,
            sys.stdout,
        )
    for error in rules.errors:
        sys.stderr.write(f"buddy: {visible(error)}\n")
    if loaded.project and not launch.trusted:
        sys.stderr.write("buddy: this folder is not trusted, so rules of its buddy.toml are not listed\n")
    return 0


def _judge_here(environment: Mapping[str, str]) -> Judge:
    try:
        cwd = os.path.realpath(os.getcwd())
    except FileNotFoundError:
        raise UsageError("the current directory no longer exists; start in another one") from None
    home = os.path.realpath(environment.get("HOME") or os.path.expanduser("~"))
    boundary = Boundary(os.path.realpath(workspace_root(cwd)), cwd, home)
    analyser = Analyser()

    search_path = environment.get("PATH") or TRUSTED_PATH

    def judge(command: str) -> tuple[Decision, str]:
        verdict = judge_command(command, boundary, analyser, search_path=search_path)
        return verdict.decision, verdict.why

    return judge


def judge_line(request: PermissionLine, judge: Judge) -> tuple[Decision, str]:
    """Return decision and reason for one line. Never raises: one failure must not cost the other answers."""
    if request.command is None:
        return "ask", request.problem
    try:
        return judge(request.command)
    except Exception as error:  # noqa: BLE001 - the border of one line: asking is the safe answer
        return "ask", f"buddy failed to judge it, so it asks: {type(error).__name__}: {str(error)[:200]}"


def requests(stream: BinaryIO) -> Iterator[PermissionLine]:
    """Yield the non-empty lines of a stream, reading at most a megabyte of each."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            identity = _first_identity(line)
            while line and not line.endswith(b"\n"):
                line = stream.readline(MAX_LINE_BYTES)
            yield _reject(number, identity, f"is longer than {MAX_LINE_BYTES} bytes")
        elif line.strip():
            yield _request(number, line)


def _request(number: int, line: bytes) -> PermissionLine:
    try:
        text = line.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape").strip()
        value = cast("object", parse_json(text))
    except JsonError as error:
        problem = error.problem
        return _reject(number, _first_identity(line), f"is {problem[:200]}")
    if not isinstance(value, dict):
        return _reject(number, None, 'is not a JSON object with "id" and "command"')
    fields = cast("dict[str, object]", value)
    identity = fields.get("id")
    if "id" not in fields:
        return _reject(number, None, 'has no "id"')
    if isinstance(identity, float) and not math.isfinite(identity):
        return _reject(number, None, 'has an "id" that is too large a number')
    command = fields.get("command")
    if not isinstance(command, str):
        return _reject(number, identity, 'has no "command" that is text')
    return PermissionLine(identity, command)


def _first_identity(line: bytes) -> object:
    """Return the id at the start of a line that is too long or broken, so that its answer can be matched."""
    match = re.match(rb'\s*\{\s*"id"\s*:\s*("[^"\\\x00-\x1f]{0,200}"|0|-?[1-9]\d{0,17})\s*,', line)
    return json.loads(match[1].decode("utf-8", "surrogateescape")) if match else None


def _reject(number: int, identity: object, what: str) -> PermissionLine:
    return PermissionLine(identity, None, f"line {number} of stdin {what}")


def _tell(request: PermissionLine, judge: Judge, *, as_json: bool) -> None:
    decision, why = judge_line(request, judge)
    if as_json:
        answer = {"id": request.identity, "decision": decision, "why": why}
        sys.stdout.write(json.dumps(answer) + "\n")
    else:
        sys.stdout.write(f"{decision:<6} {visible(request.command or '')}\n       {visible(why)}\n")
    sys.stdout.flush()
