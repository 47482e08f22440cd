"""The real paths and file versions a call was judged by; the tool checks them again when it runs.

The preview of a tool fills this in, and whoever judges a call may (`remember`); between that moment and the
write a link can be swapped or the file can change, and then nothing is written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from buddy.agent.tool import ToolContext, ToolError
from buddy.safety.paths import Boundary, locate
from buddy.safety.shell.result import Analysis
from buddy.safety.shell.scripts import Scripts, script_digests
from buddy.workspace.sandbox.profile import Confinement

MAX_CALLS = 300


class Approved:
    """Real paths and content hashes by call and by path as the model gave it."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, dict[str, tuple[str, str | None]]] = OrderedDict()
        self._environments: OrderedDict[str, Mapping[str, str]] = OrderedDict()
        self._confinements: OrderedDict[str, Confinement | None] = OrderedDict()
        self._scripts: OrderedDict[str, tuple[Analysis, tuple[Scripts, ...]]] = OrderedDict()

    def remember(self, call_id: str, given: str, real: str, digest: str | None = None) -> None:
        """Record that the call was judged with this path leading to this file. `digest`: the version that was
        shown, "" when there was no file, None when no content was shown."""
        seen = self._calls.setdefault(call_id, {})
        if digest is None and given in seen and seen[given][0] == real:
            return
        seen[given] = (real, digest)
        self._calls.move_to_end(call_id)
        while len(self._calls) > MAX_CALLS:
            self._calls.popitem(last=False)

    def harden(self, call_id: str, environment: Mapping[str, str]) -> None:
        """Record the environment variables that the judgement of this call's command requires; nothing, where
        it may change something."""
        self._environments[call_id] = environment
        while len(self._environments) > MAX_CALLS:
            self._environments.popitem(last=False)

    def confine(self, call_id: str, confinement: Confinement | None) -> None:
        """Record the confinement in which the command of this call was allowed to run; None: outside of the
        sandbox."""
        self._confinements[call_id] = confinement
        while len(self._confinements) > MAX_CALLS:
            self._confinements.popitem(last=False)

    def confinement(self, call_id: str) -> Confinement | None:
        """Return how this call's command is confined; None: it runs outside of the sandbox."""
        return self._confinements.get(call_id)

    def remember_scripts(self, call_id: str, analysis: Analysis, scripts: tuple[Scripts, ...]) -> None:
        """Record the scripts the command of this call was judged with."""
        self._scripts[call_id] = (analysis, scripts)
        while len(self._scripts) > MAX_CALLS:
            self._scripts.popitem(last=False)

    def check_scripts(self, call_id: str, boundary: Boundary) -> None:
        """Raise `ToolError` when a script the command names is not what it was when the call was judged.
        Reads the scripts."""
        judged = self._scripts.get(call_id)
        if judged is None:
            return
        analysis, before = judged
        now = script_digests(analysis, boundary)
        for was, found in zip(before, now, strict=True):
            if was != found:
                changed = [pair for pair in was if pair not in found] or [
                    pair for pair in found if pair not in was
                ]
                path, _ = changed[0]
                raise ToolError(
                    f"{locate(boundary, path).shown} changed after it was shown for approval; "
                    "nothing was run. Read it and ask again."
                )

    def environment(self, call_id: str) -> Mapping[str, str]:
        """Return the environment variables this call's command must run with."""
        return self._environments.get(call_id, {})

    def only_reads(self, call_id: str) -> bool:
        """Tell whether this call's command was judged to change nothing."""
        return bool(self.environment(call_id))

    def demand_judged(self, call_id: str, paths: Iterable[str]) -> None:
        """Raise `ToolError` where the call would touch a path it was not judged with."""
        judged = self._calls.get(call_id, {})
        if missing := [path for path in paths if path not in judged]:
            raise ToolError(
                f"this call would write {missing[0]}, which was not part of it when it was judged: something "
                "it reads has changed since. Nothing was written; make the call again."
            )

    def is_version_known(self, call_id: str, given: str) -> bool:
        """Tell whether the version of this file was shown when the call was approved."""
        judged = self._calls.get(call_id, {}).get(given)
        return judged is not None and judged[1] is not None

    def check_path(self, call_id: str, given: str, real: str) -> None:
        """Raise `ToolError` when the path leads elsewhere now."""
        judged = self._calls.get(call_id, {}).get(given)
        if judged is not None and judged[0] != real:
            raise ToolError(
                f"{given} leads to another file than when this call was approved (a link was changed); "
                "nothing was touched"
            )

    def check_content(self, call_id: str, given: str, digest: str) -> None:
        """Raise `ToolError` when the file is not the version that was shown."""
        judged = self._calls.get(call_id, {}).get(given)
        if judged is not None and judged[1] not in (None, digest):
            raise ToolError(
                f"{given} changed on disk after this change was shown for approval; nothing was written. "
                "Read it again and repeat the change."
            )


def confinement_of(ctx: ToolContext) -> Confinement | None:
    """Return how the command of a running call is confined; None: outside of the sandbox."""
    approved = ctx.services.get(Approved)
    return approved.confinement(ctx.call_id) if isinstance(approved, Approved) else None
