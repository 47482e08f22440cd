"""`buddy doctor`: checks of the installation, with advice for what does not work."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from buddy import __version__
from buddy.app.launch import LaunchContext, find_launch, read_settings
from buddy.app.options import Options
from buddy.app.providers import Models
from buddy.app.session_store import open_store
from buddy.cli.tables import show
from buddy.config.loading import LoadedSettings
from buddy.config.settings import ConfigError
from buddy.llm.local_servers import LocalServer, find_local_servers
from buddy.repl.view.blocks import TableBlock
from buddy.safety.sanitise import one_line
from buddy.sessions.errors import NoSuchSessionError, SessionError
from buddy.workspace.sandbox.probe import probe
from buddy.workspace.sandbox.status import SWITCHED_OFF, SandboxStatus

SHOWN_MODELS = 5
MAX_FINDING_CHARS = 1_000
PATIENT_S = 3.0
"""Wait for a local server. One that is generating may not answer other requests, and a report can wait longer
than a start."""


class Finding(msgspec.Struct, frozen=True):
    """One line of the report."""

    level: Literal["ok", "note", "bad"]
    text: str


_MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}
_STYLES = {"ok": "ok", "note": "warning", "bad": "error"}


def doctor(options: Options, environment: Mapping[str, str]) -> int:
    """Print the report; the exit code is 1 when something is bad."""
    launch = find_launch(options, environment)
    findings = [_sanitise(finding) for finding in _findings(options, launch)]
    if options.output_format == "json" or options.json:
        rows = [{"level": finding.level, "text": finding.text} for finding in findings]
        sys.stdout.write(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    else:
        show(_table(findings), _lines(findings), options, environment, sys.stdout)
    return 1 if any(finding.level == "bad" for finding in findings) else 0


def report(options: Options, launch: LaunchContext) -> TableBlock:
    """Return the report. It reads the disk and asks local servers: don't call it on a running event loop."""
    return _table([_sanitise(finding) for finding in _findings(options, launch)])


def _table(findings: Sequence[Finding]) -> TableBlock:
    rows = tuple((_MARKS[finding.level].strip(), finding.text) for finding in findings)
    return TableBlock((), rows, tuple(_STYLES[finding.level] for finding in findings))


def _lines(findings: Iterable[Finding]) -> Iterator[str]:
    return (f"{_MARKS[finding.level]}  {finding.text}" for finding in findings)


def _sanitise(finding: Finding) -> Finding:
    """Return the finding as one sanitised line: model and folder names come from outside."""
    return Finding(finding.level, one_line(finding.text, MAX_FINDING_CHARS))


def _findings(options: Options, launch: LaunchContext) -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding("ok", f"buddy {__version__}, Python {version}, {platform.system()} {platform.machine()}")
    yield from _settings(options, launch)
    for name, why in (("git", "git tools and checkpoints"), ("bash", "the shell tool")):
        found = shutil.which(name)
        yield Finding("ok", f"{name}: {found}") if found else Finding("bad", f"{name} is missing: no {why}")
    if importlib.util.find_spec("re2") is None:
        yield Finding("note", "google-re2 is not installed: searching is slower")
    yield from _sandbox(options, launch)
    yield from _targets(options, launch)
    yield from _folders(launch)
    yield from _last_session(options, launch)


def _sandbox(options: Options, launch: LaunchContext) -> Iterator[Finding]:
    """Return the sandbox level that works here, found by the same trial as a session's."""
    try:
        is_off = read_settings(launch, options).settings.sandbox.level == "off"
    except ConfigError:
        is_off = False  # said among the settings
    status = SandboxStatus(0, SWITCHED_OFF) if is_off else probe().status
    head, *gaps = status.lines()
    yield Finding("ok" if status.has_read_only else "note", f"sandbox: {head}")
    for gap in gaps:
        yield Finding("note", f"sandbox: {gap}")


def _settings(options: Options, launch: LaunchContext) -> Iterator[Finding]:
    try:
        loaded = read_settings(launch, options)
    except ConfigError as error:
        yield Finding("bad", str(error))
        return
    for path in loaded.files:
        yield Finding("ok", f"settings: {path}")
    for warning in loaded.warnings:
        yield Finding("note", warning)
    trust = "trusted" if launch.trusted else "not trusted (its buddy.toml is ignored)"
    yield Finding("ok", f"workspace: {launch.boundary.root}, {trust}")
    yield from asyncio.run(_model(options, launch, loaded))
    for server in asyncio.run(find_local_servers(timeout_s=PATIENT_S)):
        yield Finding("ok", f"local server: {server.base_url}, {_models_of(server)}")


def _models_of(server: LocalServer) -> str:
    """List the models of a local server and how to ask one. The port does not tell which server it is, so it
    is not named."""
    if not server.models:
        return f"no model yet; with one: buddy -m {server.provider}/MODEL"
    more = ", …" if len(server.models) > SHOWN_MODELS else ""
    return f"{', '.join(server.models[:SHOWN_MODELS])}{more}: buddy -m {server.provider}/{server.models[0]}"


async def _model(options: Options, launch: LaunchContext, loaded: LoadedSettings) -> list[Finding]:
    """Check the model, its key and its server."""
    models = Models(loaded.settings, launch)
    try:
        access = models.access(options.model)
        findings: list[Finding] = []
        problem = await models.problem(options.model)
        server, server_problem = await models.server_problem(options.model)
        guess = " (a guess: set context_limit)" if access.window.guessed else ""
        at_server = f" at {server}" if server else ""
        sent_as = "" if access.model == access.name else f" (sent as {access.model})"
        lane = f"the {access.provider.lane} lane{at_server}, {access.window.limit:,} tokens{guess}"
        findings.append(Finding("ok", f"model: {access.name}{sent_as} through {lane}"))
        key = models.key_source(options.model)
        findings.append(
            Finding("bad", f"key: {problem}")
            if problem
            else Finding("ok", f"key: from {key}" if key else "key: none, and none is needed here")
        )
        if server and not problem:
            findings.append(
                Finding("bad", f"server: {server_problem}")
                if server_problem
                else Finding("ok", f"server: {server} answers")
            )
    except ConfigError as error:
        return [Finding("bad", f"model: {error}")]
    finally:
        await models.aclose()
    return findings


def _targets(options: Options, launch: LaunchContext) -> Iterator[Finding]:
    """Check the targets of the settings, and connect to each."""
    try:
        settings = read_settings(launch, options).settings.targets
    except ConfigError:
        return  # said among the settings
    if not settings:
        return
    from buddy.app.targets import TargetClients, try_target  # only with a target
    from buddy.workspace.processes.environment import ChildEnvironment

    environment = launch.environment
    clients = TargetClients(ChildEnvironment(environment, ""), environment, launch.boundary.root)
    for name, target in settings.items():
        shown, problem = try_target(name, target, clients)
        yield (
            Finding("note", f"target {name}: {problem}")
            if problem
            else Finding("ok", f"target {name}: {shown} answers")
        )


def _folders(launch: LaunchContext) -> Iterator[Finding]:
    for folder in (launch.where.config, launch.where.state, launch.where.data, launch.boundary.root):
        existing = folder
        while not os.path.exists(existing):
            existing = os.path.dirname(existing)
        if not os.access(existing, os.W_OK):
            yield Finding("bad", f"{folder} can't be written: sessions and settings are not saved")
    readable = os.path.join(launch.where.data, "credentials.json")
    if os.path.exists(readable) and os.stat(readable).st_mode & 0o077:
        yield Finding("bad", f"{readable} can be read by others: chmod 600 {readable}")


def _last_session(options: Options, launch: LaunchContext) -> Iterator[Finding]:
    """Check the files of the session that `--continue` would open."""
    try:
        last = open_store(launch, read_settings(launch, options).settings, _ignore).read("last")
    except NoSuchSessionError:
        return
    except (ConfigError, SessionError, OSError) as error:
        yield Finding("bad", f"last session: it can't be read: {error}")
        return
    if not last.problems:
        yield Finding("ok", f"last session: {os.path.basename(last.directory)}, undamaged")
    for problem in last.problems:
        yield Finding("note", f"last session: {os.path.basename(last.directory)}: {problem}")


def _ignore(_text: str) -> None:
    """Ignore notices about saving: nothing is written here."""
