"""`buddy permissions test`: what would be asked about, and why. Judges; runs nothing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping

from buddy.cli.arguments import Options, UsageError
from buddy.safety.paths import Boundary
from buddy.safety.policy_command import CommandVerdict, judge_command
from buddy.safety.sanitise import visible
from buddy.safety.shell.analysis import Analyser
from buddy.sessions.folder import workspace_root


def permissions(options: Options, environment: Mapping[str, str]) -> int:
    """Judge commands of the arguments, or JSON lines {"id", "command"} of stdin, in this directory, taken as
    trusted, in the default mode, without a sandbox and without anybody's rules."""
    if not options.words or options.words[0] != "test":
        raise UsageError('expected: buddy permissions test "git log" …, or JSON lines on stdin with --json')
    cwd = os.path.realpath(os.getcwd())
    home = os.path.realpath(environment.get("HOME") or os.path.expanduser("~"))
    boundary = Boundary(os.path.realpath(workspace_root(cwd)), cwd, home)
    analyser = Analyser()
    commands = options.words[1:]
    if not commands and sys.stdin.isatty():
        raise UsageError("expected commands as arguments, or JSON lines on stdin")
    asked = ((str(number), one) for number, one in enumerate(commands, 1)) if commands else _lines()
    for identity, command in asked:
        verdict = judge_command(command, boundary, analyser)
        _tell(identity, command, verdict, as_json=options.json or not commands)
    return 0


def _lines() -> Iterator[tuple[object, str]]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            given = json.loads(line.decode("utf-8", "surrogateescape"))
            identity, command = given["id"], given["command"]
        except (ValueError, KeyError, TypeError):
            raise UsageError(f'line {number} of stdin is not a JSON object with "id" and "command"') from None
        if not isinstance(command, str):
            raise UsageError(f'line {number} of stdin: "command" must be text')
        yield identity, command


def _tell(identity: object, command: str, verdict: CommandVerdict, *, as_json: bool) -> None:
    if as_json:
        answer = {"id": identity, "decision": verdict.decision, "why": verdict.why}
        sys.stdout.write(json.dumps(answer) + "\n")
    else:
        sys.stdout.write(f"{verdict.decision:<6} {visible(command)}\n       {visible(verdict.why)}\n")
    sys.stdout.flush()
