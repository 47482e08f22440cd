"""The sandbox of a session: probed once, then used to confine each command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from ipaddress import ip_network
from pathlib import Path

import msgspec

from buddy.agent.cancel import on_failure
from buddy.agent.tool import Blocked
from buddy.safety.paths import Boundary
from buddy.safety.url_guard import Resolver, system_resolver
from buddy.workspace.processes.launch import Launch, Start
from buddy.workspace.processes.process_tree import Tag
from buddy.workspace.sandbox.audit import Attempts, FilterRefusedError, Recorder, is_filter_allowed
from buddy.workspace.sandbox.blocked import find_blocked
from buddy.workspace.sandbox.bubblewrap import FILTER_FD, bubblewrap_argv, tolerant_argv
from buddy.workspace.sandbox.home_secrets import HomeSecrets
from buddy.workspace.sandbox.landlock import restriction_for
from buddy.workspace.sandbox.landlock_thread import Restriction, gate_argv, restrict_thread
from buddy.workspace.sandbox.left_behind import remove_lost_files
from buddy.workspace.sandbox.network import SandboxNetwork, find_ports, open_network
from buddy.workspace.sandbox.own_thread import call_in_own_thread
from buddy.workspace.sandbox.places import Surveyor, WorkspaceSurvey, open_sockets, profile_for, with_places
from buddy.workspace.sandbox.probe import ProbeResult, probe
from buddy.workspace.sandbox.profile import (
    Confinement,
    SandboxProfile,
    SandboxRules,
    is_open,
    is_reserved,
    is_writable,
)
from buddy.workspace.sandbox.proxy import Pass, SandboxProxy
from buddy.workspace.sandbox.seatbelt import seatbelt_argv
from buddy.workspace.sandbox.seccomp import attempts, refusals
from buddy.workspace.sandbox.status import NO_SANDBOX, SWITCHED_OFF, SandboxStatus
from buddy.workspace.sandbox.tether import Tether
from buddy.workspace.sandbox.watch import CommandWatch
from buddy.workspace.temporary import TemporaryFolder, remove_abandoned

SURVEY_LASTS_S = 20.0
"""Maximum age of the survey of a big workspace that a command is confined by."""
QUICK_WALK_S = 0.02
"""A survey that takes no longer is repeated before every command."""

CACHE_VARIABLES = {
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "npm_config_cache": "npm",
    "GOCACHE": "go-build",
    "YARN_CACHE_FOLDER": "yarn",
}
"""Caches that tools need: each workspace has its own, so that nothing a command puts there is used
outside."""


class Confined:
    """One command in the sandbox, from its start until `finish`."""

    def __init__(
        self,
        launch: Launch,
        profile: SandboxProfile,
        *,
        recorder: Recorder | None,
        restriction: Restriction | None,
        gate: str,
        isolated: bool,
        launcher: str,
        holder: Pass | None,
        tether: Tether,
        number: int,
        restore: Callable[[], None],
        stir: Callable[[], None],
        release: Callable[[], None],
    ) -> None:
        self.launch = launch
        self._profile = profile
        self._recorder = recorder
        self._restriction = restriction
        self._gate = gate
        self._isolated = isolated
        self._attempts = Attempts(
            partial(is_reserved, profile),
            partial(is_writable if isolated else is_open, profile),
            stir,
            launcher,
        )
        self._holder = holder
        self._tether = tether
        self._number = number
        self._group = 0
        self._restore = restore
        self._release = release

    def start(self, start: Start, terminal: str) -> subprocess.Popen[bytes]:
        """Call the function that starts `launch` as the leader of a group, in a thread with the confinement
        that the command inherits. Raises what `start` raises."""
        process = self._start_confined(start, terminal)
        self._group = process.pid
        self._tether.tie_group(process.pid)
        return process

    def _start_confined(self, start: Start, terminal: str) -> subprocess.Popen[bytes]:
        if self._recorder is None and self._restriction is None:
            return start(_nothing)
        confine = partial(self._confine_thread, terminal)
        with _closed_gate(self._gate):
            try:
                return call_in_own_thread(partial(start, confine), "sandbox-launcher")
            except FilterRefusedError as error:
                if self._restriction is not None:  # its filter relies on this one for sockets
                    raise OSError(f"system calls can no longer be reported: {error}") from error
                return start(_nothing)

    def _confine_thread(self, terminal: str) -> None:
        if self._recorder is not None:
            self._recorder.record_thread(self._attempts)
        if self._restriction is not None:
            restrict_thread(self._restriction, terminal)

    def blocked_accesses(self) -> Blocked:
        """Return the accesses that were refused so far."""
        return find_blocked(self._profile, self._attempts, self._holder.requests if self._holder else ())

    def ports(self) -> tuple[int, ...]:
        """Return the ports it serves that only commands of this session can reach."""
        return find_ports(self._group, self._number) if self._holder is not None and self._group else ()

    def restore_changes(self) -> None:
        """Restore the protected names it changed. Blocks; call it after the command ended."""
        self._restore()

    def lost(self) -> str:
        """Return nothing: the end of a command of this machine is known."""
        return ""

    def exit_code(self, process: int | None) -> int | None:
        """Return that of its process: it is its own."""
        return process

    def finish(self) -> None:
        """Release everything held for the command, after it ended."""
        self._tether.untie(self._number, self._group)
        self._release()


class Sandbox:
    """The owner of everything commands are confined with. `rules` is called for each command."""

    def __init__(
        self,
        rules: Callable[[], SandboxRules],
        *,
        cache: str,
        records: str,
        resolver: Resolver = system_resolver,
        look: Callable[[], ProbeResult] = probe,
    ) -> None:
        self._rules = rules
        self._cache = cache
        self._resolver = resolver
        self._look = look
        self._probed = ProbeResult(NO_SANDBOX)
        self._temporary: TemporaryFolder | None = None
        self._folder = ""
        self._sweep: asyncio.Task[None] | None = None
        self._is_closing = threading.Event()
        self._network: SandboxNetwork | None = None
        self._server: asyncio.Server | None = None
        self._proxy: SandboxProxy | None = None
        self._recorder: Recorder | None = None
        self._records = records
        self._tether = Tether(records)
        self._surveyors: dict[tuple[str, ...], Surveyor] = {}
        self._secrets: dict[str, HomeSecrets] = {}
        self._watch = CommandWatch(rules, records, self._tether)
        self._ready: asyncio.Task[SandboxStatus] | None = None

    @property
    def status(self) -> SandboxStatus:
        """Return the level in force, as far as it is known."""
        return self._probed.status

    async def ready(self) -> SandboxStatus:
        """Probe what works here, once; every caller waits for the same result."""
        if self._ready is None:
            self._ready = asyncio.ensure_future(self._prepare())
        return await asyncio.shield(self._ready)

    async def _prepare(self) -> SandboxStatus:
        try:
            return await self._probe_and_open()
        finally:
            self._sweep = asyncio.ensure_future(asyncio.to_thread(self._remove_abandoned))

    async def swept(self) -> None:
        """Wait until everything was removed that killed runs left behind."""
        await self.ready()
        if self._sweep is not None:
            await self._sweep

    def _remove_abandoned(self) -> None:
        """Remove what runs of buddy that were killed left behind."""
        remove_abandoned(self._is_closing.is_set)
        remove_lost_files(self._records, time.time())

    async def _probe_and_open(self) -> SandboxStatus:
        if self._rules().is_off:
            self._probed = ProbeResult(SandboxStatus(0, SWITCHED_OFF))
            return self.status
        self._temporary = TemporaryFolder("sandbox")
        self._folder = self._temporary.path
        os.mkdir(os.path.join(self._folder, "tmp"), 0o700)
        os.mkdir(os.path.join(self._folder, "empty"), 0o500)
        probed = await asyncio.to_thread(self._look)
        if probed.bubblewrap and probed.nsenter:
            with contextlib.suppress(OSError):  # no shared namespace: each command gets an empty one
                await self._open_door(probed.bubblewrap, probed.nsenter)
        if probed.machine is not None and probed.status.is_working:
            program = attempts(probed.machine, isolated=probed.status.level == 3)
            if await asyncio.to_thread(is_filter_allowed, program):
                self._recorder = Recorder(probed.machine, program)
            Path(self._filter_file).write_bytes(refusals(probed.machine, isolated=True))
        self._probed = probed
        return self.status

    def _status_file(self, name: str) -> str:
        return os.path.join(self._folder, f"status-{name}")

    @property
    def _filter_file(self) -> str:
        return os.path.join(self._folder, "filter")

    async def _open_door(self, bubblewrap: str, nsenter: str) -> None:
        network = await open_network(bubblewrap)
        if not await asyncio.to_thread(network.can_enter, nsenter):
            network.close()
            raise OSError("no program can enter the network namespace")
        self._network = network
        self._proxy = SandboxProxy(
            lambda: self._rules().hosts,
            self._resolver,
            lambda: tuple(map(ip_network, self._rules().networks)),
        )
        self._server = await self._proxy.serve(self._network.listener)

    async def survey(self, boundary: Boundary) -> None:
        """Survey the workspace if the last survey is too old; call it before `confine`."""
        await self.ready()
        await self.check()
        surveyor = self._surveyor(with_places(boundary, self._rules().writable))
        age_s = time.monotonic() - surveyor.walked_at
        if self.status.is_working and (surveyor.took_s <= QUICK_WALK_S or age_s > SURVEY_LASTS_S):
            await asyncio.to_thread(surveyor.look)
        if self.status.is_working:
            await self._home_secrets(boundary.home).renew()

    def _home_secrets(self, home: str) -> HomeSecrets:
        return self._secrets.setdefault(home, HomeSecrets(home))

    def _surveyor(self, boundary: Boundary) -> Surveyor:
        roots = (boundary.root, *boundary.extra)
        if roots not in self._surveyors:
            self._surveyors[roots] = Surveyor(roots, boundary.home)
        return self._surveyors[roots]

    def take_repairs(self) -> tuple[str, ...]:
        """Return, once, a sentence for each protected name that was changed and restored."""
        return self._watch.take_repairs()

    async def check(self) -> None:
        """Check the protected names for changes by running commands, before a program runs that acts on
        them."""
        if self._watch.is_watching:
            await asyncio.to_thread(self._watch.check)

    def confine(self, launch: Launch, confinement: Confinement, tag: Tag) -> Confined:
        """Put a command into the sandbox; `tag` marks its processes. Raises `OSError`."""
        guarded = looked_at = with_places(confinement.boundary, self._rules().writable)
        if confinement.kind != "read-only":
            guarded = with_places(guarded, confinement.writable)
        surveyor = self._surveyor(guarded)
        if guarded != looked_at or not surveyor.took_s:
            surveyor.look()  # a place opened for this command only: its folders are cached from the search
        profile = self._profile(confinement, guarded, surveyor.survey)
        watch = self._watch
        with contextlib.ExitStack() as stack:
            holder = self._admit(tag.text, confinement) if profile.network else None
            stack.callback(self._dismiss, tag.text)
            extra = {
                **self._caches(),
                "TMPDIR": self._scratch_inside(),
                **(holder.environment() if holder else {}),
            }
            varied = _with_variables(launch, extra)
            restriction = None
            if self.status.level == 2:
                restriction = self._restriction(profile)
                wrapped = _in_front(varied, gate_argv(self._gate_file(tag.text)))
            else:
                wrapped = self._wrap(varied, profile, tag.text)
            watched = None
            with on_failure(self._tether.untie, tag.number, 0):
                self._tether.tie(tag.number)  # before the command starts: buddy may be killed at any moment
                if confinement.kind != "read-only":
                    watched = watch.begin(guarded, surveyor, contents=self.status.level == 2)
                    stack.callback(watch.end, watched)
            release = stack.pop_all().close

        return Confined(
            wrapped,
            profile,
            recorder=self._recorder,
            restriction=restriction,
            gate=self._gate_file(tag.text) if restriction is not None else "",
            isolated=self.status.level == 3,
            launcher=os.path.realpath(self._probed.bubblewrap) if self.status.level == 3 else "",
            holder=holder,
            tether=self._tether,
            number=tag.number,
            restore=partial(watch.check, watched) if watched is not None else _nothing,
            stir=watch.stir if watched is not None else _nothing,
            release=release,
        )

    def _profile(self, confinement: Confinement, guarded: Boundary, known: WorkspaceSurvey) -> SandboxProfile:
        rules = self._rules()
        roots = (guarded.root, *guarded.extra)
        writable = (*rules.writable, *confinement.writable, self._cache_folder())
        return profile_for(
            confinement.kind,
            guarded,
            known,
            writable=writable,
            hidden=(
                *rules.hidden,
                *self._home_secrets(guarded.home).outside((*guarded.trees, *writable)),
                *(open_sockets(roots) if self.status.level == 3 else ()),
            ),
            scratch=os.path.join(self._folder, "tmp"),
            network=self._proxy is not None,
            closed=confinement.closed,
            empty=os.path.join(self._folder, "empty"),
        )

    def _admit(self, name: str, confinement: Confinement) -> Pass | None:
        return self._proxy.admit(name, confinement.hosts) if self._proxy is not None else None

    def _dismiss(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._status_file(name))
        if self._proxy is not None:
            self._proxy.dismiss(name)

    def _restriction(self, profile: SandboxProfile) -> Restriction:
        machine = self._probed.machine
        assert machine is not None  # the level is found with its table
        reported = self._recorder is not None
        return restriction_for(profile, refusals(machine, isolated=False, reported=reported))

    def _gate_file(self, name: str) -> str:
        return os.path.join(self._folder, f"gate-{name}")

    def _wrap(self, launch: Launch, profile: SandboxProfile, name: str) -> Launch:
        probed = self._probed
        if probed.status.level == 1:
            return _in_front(launch, seatbelt_argv(profile))
        network = self._network if profile.network else None
        front = bubblewrap_argv(
            probed.bubblewrap,
            profile,
            cwd=launch.cwd,
            own_network=network is None,
            seccomp_fd=FILTER_FD,
        )
        started = tolerant_argv(front, self._filter_file, self._status_file(name))
        entered = network.enter_argv(probed.nsenter) if network else ()
        return _in_front(launch, (*entered, *started))

    def _scratch_inside(self) -> str:
        return "/tmp" if self.status.level == 3 else os.path.join(self._folder, "tmp")  # noqa: S108 - its own

    def _cache_folder(self) -> str:
        os.makedirs(self._cache, 0o700, exist_ok=True)
        return self._cache

    def _caches(self) -> Mapping[str, str]:
        opened = {os.path.basename(place.rstrip("/")).lstrip(".") for place in self._rules().writable}
        return {
            name: os.path.join(self._cache, folder)
            for name, folder in CACHE_VARIABLES.items()
            if folder not in opened
        }

    async def aclose(self) -> None:
        """Release everything; no command may be running."""
        if self._ready is not None:
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await self._ready
        if self._server is not None:
            self._server.close()
        if self._network is not None:
            self._network.close()
        self._tether.close()
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)
        if self._temporary is not None:
            await asyncio.to_thread(self._temporary.close)
        if self._sweep is not None:
            self._is_closing.set()
            await self._sweep


def _nothing() -> None:
    """Do nothing: a command that can't change anything needs no check."""


@contextlib.contextmanager
def _closed_gate(path: str) -> Generator[None]:
    """Let commands wait at a gate meanwhile; "" for none."""
    if not path:
        yield
        return
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        yield
    finally:
        os.unlink(path)


def _with_variables(launch: Launch, variables: Mapping[str, str]) -> Launch:
    return msgspec.structs.replace(launch, env={**launch.env, **variables})


def _in_front(launch: Launch, words: Sequence[str]) -> Launch:
    return msgspec.structs.replace(launch, argv=(*words, *launch.argv))
