"""Facts about calls, for the policy: paths resolved, shell commands analysed, hosts parsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec

from buddy.agent.tool import NO_SURVEY, Tool, ToolError
from buddy.safety.paths import Boundary, locate
from buddy.safety.policy_facts import Facts, HookOpinion, facts_of
from buddy.safety.sanitise import visible
from buddy.safety.scripts import script_digests
from buddy.safety.shell.verdict import Analysis
from buddy.safety.suspicious import suspicious_url
from buddy.safety.url_guard import Refused, judge_url
from buddy.workspace.sandbox.status import NO_SANDBOX, SandboxStatus

SHELL_TOOL = "run_shell"
SEARCH_TOOL = "web_search"


class Judge:
    """Looks at calls. `search_path`: the PATH that commands will run with, "" for the trusted one;
    `sandbox`: what commands are confined by."""

    def __init__(
        self,
        boundary: Boundary,
        *,
        search_path: str = "",
        sandbox: Callable[[], SandboxStatus] = lambda: NO_SANDBOX,
    ) -> None:
        self._boundary = boundary
        self._sandbox = sandbox
        self._search_path = search_path
        self._analyse: Callable[[str, Boundary], Analysis] | None = None

    def facts(self, tool: Tool, arguments: Any) -> Facts:
        """Collect what the policy needs to know about a call. Raises `ToolError` for an impossible path."""
        survey = tool.survey(self._boundary, arguments) if tool.survey is not None else NO_SURVEY
        if tool.name == SEARCH_TOOL:
            return facts_of(tool, arguments, self._boundary, hook=_sought(arguments.query))
        if tool.name != SHELL_TOOL:
            host, hook = _address(arguments)
            return facts_of(
                tool,
                arguments,
                self._boundary,
                host=host,
                hook=hook,
                survey=survey,
                sandboxed=tool.confined and self._sandbox().is_working,
            )
        if self._analyse is None:
            from buddy.cli.shell_judge import (
                ShellJudge,  # tree-sitter and the tables: 20 ms, with the first command
            )

            self._analyse = ShellJudge(self._search_path).analyse
        boundary = self._boundary
        if arguments.cwd:  # as the tool reads it: "~" and links
            started = locate(boundary, arguments.cwd).real
            boundary = msgspec.structs.replace(boundary, cwd=started)
        analysis = self._analyse(arguments.command, boundary)
        scripts = () if analysis.read_only else script_digests(analysis, boundary)
        status = self._sandbox()
        return facts_of(
            tool,
            arguments,
            self._boundary,
            shell=analysis,
            scripts=scripts,
            sandboxed=status.is_working,
            read_only_sandbox=status.has_read_only,
        )


def _address(arguments: Any) -> tuple[str, HookOpinion | None]:
    """The host a call goes to, and why a person must look at what it sends; ("", None) for most tools.
    Raises `ToolError` for an address nobody fetches, so that nobody is asked about it."""
    url: object = getattr(arguments, "url", "")
    if not isinstance(url, str) or not url:
        return "", None
    judged = judge_url(url)
    if isinstance(judged, Refused):
        raise ToolError(judged.reason)
    reason = suspicious_url(url)
    return judged.host, HookOpinion("ask", f"{judged.shown}: {reason}") if reason else None


def _sought(query: str) -> HookOpinion | None:
    """Why a person must look at what is searched for: it goes to strangers, like an address."""
    reason = suspicious_url(f"https://search.invalid/?q={quote(query, safe='')}")
    return HookOpinion("ask", f"the search {visible(query)}: {reason}") if reason else None
