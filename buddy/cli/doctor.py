"""`buddy doctor`: what works here and what doesn't, with what to do about it."""

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
from buddy.app.session_store import session_store
from buddy.cli.tables import show
from buddy.config.loading import LoadedSettings
from buddy.config.settings import ConfigError
from buddy.llm.local_servers import LocalServer, find_local_servers
from buddy.repl.view.blocks import TableBlock
from buddy.safety.sanitise import one_line
from buddy.sessions.folder import FolderError
from buddy.sessions.store import NoSuchSessionError, SessionError
from buddy.workspace.sandbox.probe import probe
from buddy.workspace.sandbox.status import SWITCHED_OFF, SandboxStatus

SHOWN_MODELS = 5
MAX_FINDING_CHARS = 1_000
PATIENT_S = 3.0
"""A server that is busy with a reply may answer nothing else meanwhile; the report can wait longer for it
than a start."""


class Finding(msgspec.Struct, frozen=True):
    """One line of the report."""

    level: Literal["ok", "note", "bad"]
    text: str


_MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}
_STYLES = {"ok": "ok", "note": "warning", "bad": "error"}


def doctor(options: Options, environment: Mapping[str, str]) -> int:
    """Print the report. The exit code is 1 when something is bad."""
    launch = find_launch(options, environment)
    findings = [_inert(finding) for finding in _findings(options, launch)]
    if options.output_format == "json" or options.json:
        rows = [{"level": finding.level, "text": finding.text} for finding in findings]
        sys.stdout.write(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    else:
        show(_table(findings), _lines(findings), options, environment, sys.stdout)
    return 1 if any(finding.level == "bad" for finding in findings) else 0


def report(options: Options, launch: LaunchContext) -> TableBlock:
    """The report. It looks at the disk and at local servers: not on a running event loop."""
    return _table([_inert(finding) for finding in _findings(options, launch)])


def _table(findings: Sequence[Finding]) -> TableBlock:
    rows = tuple((_MARKS[finding.level].strip(), finding.text) for finding in findings)
    return TableBlock((), rows, tuple(_STYLES[finding.level] for finding in findings))


def _lines(findings: Iterable[Finding]) -> Iterator[str]:
    return (f"{_MARKS[finding.level]}  {finding.text}" for finding in findings)


def _inert(finding: Finding) -> Finding:
    """The finding on one line that controls no terminal: servers name their models, and folders have names
    of any kind."""
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
    yield from _folders(launch)
    yield from _last_session(options, launch)


def _sandbox(options: Options, launch: LaunchContext) -> Iterator[Finding]:
    """The level that works here, by the trial a session makes."""
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
    """Its models and how one is asked. The port does not tell whose server it is, so it is not named."""
    if not server.models:
        return f"no model yet; with one: buddy -m {server.provider}/MODEL"
    more = ", …" if len(server.models) > SHOWN_MODELS else ""
    return f"{', '.join(server.models[:SHOWN_MODELS])}{more}: buddy -m {server.provider}/{server.models[0]}"


async def _model(options: Options, launch: LaunchContext, loaded: LoadedSettings) -> list[Finding]:
    """The model, its key and its server, which is asked with the key."""
    models = Models(loaded.settings, launch)
    try:
        access = models.access(options.model)
        found: list[Finding] = []
        problem = await models.problem(options.model)
        server, told = await models.server_problem(options.model)
        guess = " (a guess: set context_limit)" if access.window.guessed else ""
        where = f" at {server}" if server else ""
        sent = "" if access.model == access.name else f" (sent as {access.model})"
        lane = f"the {access.provider.lane} lane{where}, {access.window.limit:,} tokens{guess}"
        found.append(Finding("ok", f"model: {access.name}{sent} through {lane}"))
        key = models.key_launch(options.model)
        found.append(
            Finding("bad", f"key: {problem}")
            if problem
            else Finding("ok", f"key: from {key}" if key else "key: none, and none is needed here")
        )
        if server and not problem:
            found.append(
                Finding("bad", f"server: {told}") if told else Finding("ok", f"server: {server} answers")
            )
    except ConfigError as error:
        return [Finding("bad", f"model: {error}")]
    finally:
        await models.aclose()
    return found


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
    """The session that `--continue` would take up: what of its files is damaged."""
    try:
        last = session_store(launch, read_settings(launch, options).settings, _say_nothing).read("last")
    except NoSuchSessionError:
        return
    except (ConfigError, SessionError, FolderError, OSError) as error:
        yield Finding("bad", f"last session: it cannot be read: {error}")
        return
    if not last.problems:
        yield Finding("ok", f"last session: {os.path.basename(last.directory)}, undamaged")
    for problem in last.problems:
        yield Finding("note", f"last session: {os.path.basename(last.directory)}: {problem}")


def _say_nothing(_text: str) -> None:
    """Nothing is written, so nothing is said of saving."""
