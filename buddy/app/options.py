"""The options of a run, from the command line or from a program."""

from __future__ import annotations

import msgspec


class UsageError(Exception):
    """Unusable arguments: one line for the user, exit code 2."""


class Options(msgspec.Struct, frozen=True):
    """The command line. Empty strings and zeros mean "not given"."""

    command: str = ""
    words: tuple[str, ...] = ()
    model: str = ""
    permission_mode: str = ""
    permission_prompts: str = "deny"
    trust: bool = False
    require_trust: bool = False
    i_know: bool = False
    in_worktree: bool = False
    worktree: str = ""
    carry: bool = False
    target: str = ""
    add_dir: tuple[str, ...] = ()
    config: str = ""
    debug: bool = False
    resume: str = ""
    resume_last: bool = False
    fork: bool = False
    ephemeral: bool = False
    print: bool = False
    output_format: str = "text"
    include_partial_messages: bool = False
    input_format: str = "text"
    verbose: bool = False
    replay_user_messages: bool = False
    permission_prompt_tool: str = ""
    system_prompt: str = ""
    append_system_prompt: str = ""
    settings: str = ""
    setting_sources: str | None = None
    tools: str | None = None
    disallowed: tuple[str, ...] = ()
    effort: str = ""
    thinking: str = ""
    max_thinking_tokens: str = ""
    json_schema: str = ""
    session_id: str = ""
    agents: str = ""
    plugin_dir: tuple[str, ...] = ()
    cd: str = ""
    images: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    max_turns: int = 0
    max_cost: float = 0
    allow: tuple[str, ...] = ()
    output: str = ""
    mcp_config: tuple[str, ...] = ()
    strict_mcp_config: bool = False
    port: int = 0
    socket: str = ""
    transport: str = ""
    scope: str = ""
    env: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    color: str = ""
    plain: bool = False
    json: bool = False
    all: bool = False
    force: bool = False
    yes: bool = False
    wide: bool = False
    help: bool = False
    version: bool = False

    @property
    def changes_settings(self) -> bool:
        """Tell whether an option changes settings of the files."""
        texts = (self.append_system_prompt, self.settings, self.effort, self.thinking, self.json_schema)
        return bool(any(texts) or self.max_thinking_tokens or self.disallowed or self.tools is not None)

    @property
    def reference(self) -> str:
        """Return the session to resume, "" for a new one."""
        return self.resume or ("last" if self.resume_last else "")
