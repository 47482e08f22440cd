"""A repository's own git configuration: what in it names programs, and how git is run without them.

A repository that was copied or unpacked brings its configuration along, and two dozen of its keys are
command lines. Read commands run with all of them switched off.
"""

from __future__ import annotations

import os
import subprocess

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.git_programs import starts_program
from buddy.safety.git_repository import git_folders
from buddy.workspace.processes.launch import trusted_program

OWN_SCOPES = frozenset({"local", "worktree"})
"""Scopes the repository decides; system, global and command are the person's and buddy's."""

CONFIG_LIMIT_S = 5.0
UNREADABLE = "(the configuration cannot be read)"

QUIET = {
    "advice.detachedHead": "false",
    "color.ui": "false",
    "column.ui": "never",
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.quotePath": "false",
    "diff.mnemonicPrefix": "false",
    "diff.noprefix": "false",
    "diff.submodule": "short",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "log.diffMerges": "separate",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "protocol.ext.allow": "never",
    "push.recurseSubmodules": "no",
    "safe.bareRepository": "explicit",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}
"""Set for every git buddy runs: what it prints can be read, and nothing but the command itself runs."""

INERT = {
    "core.alternateRefsCommand": "",
    "core.askPass": "",
    "core.editor": "false",
    "core.gitProxy": "",
    "core.hooksPath": "/dev/null",
    "core.sshCommand": "false",
    "credential.helper": "",
    "diff.external": "",
    "gpg.openpgp.program": "false",
    "gpg.program": "false",
    "gpg.ssh.defaultKeyCommand": "",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "interactive.diffFilter": "",
    "protocol.allow": "never",
}
"""Set besides for commands that only read."""


class Setting(msgspec.Struct, frozen=True):
    """One line of git's effective configuration, in git's own spelling of the key."""

    scope: str
    key: str
    value: str

    @property
    def is_own(self) -> bool:
        """Tell whether the setting comes from the repository's own configuration."""
        return self.scope in OWN_SCOPES

    @property
    def runs_something(self) -> bool:
        """Tell whether the value is a command line, or decides which one is run."""
        return starts_program(self.key, self.value)


def list_command(git: str) -> tuple[str, ...]:
    """Return the command line that lists the effective configuration for `parse_settings`; it runs
    nothing."""
    return (git, "config", "--null", "--show-scope", "--includes", "--list")


def parse_settings(output: str) -> tuple[Setting, ...]:
    """Parse git's list, as `list_command` prints it. Pure."""
    fields = output.split("\0")
    found: list[Setting] = []
    for scope, entry in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = entry.partition("\n")
        found.append(Setting(scope, key, value))
    return tuple(found)


def executing_keys(repository: str, *, limit_s: float = CONFIG_LIMIT_S) -> tuple[str, ...]:
    """Return keys of a repository's own configuration whose values are run or decide what is, sorted. A
    configuration that cannot be read counts as one. Waits for git, some milliseconds."""
    git = trusted_program("git")
    if git is None or not os.path.isdir(repository):
        return ()
    try:
        done = subprocess.run(
            (git, "-c", "safe.directory=*", *list_command(git)[1:]),
            cwd=repository,
            env={"PATH": os.path.dirname(git), "HOME": "/dev/null/nowhere", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return (UNREADABLE,)
    if done.returncode != 0:
        return (UNREADABLE,)
    settings = parse_settings(done.stdout.decode("utf-8", "replace"))
    return tuple(sorted({each.key for each in settings if each.is_own and each.runs_something}))


def active_hooks(repository: str) -> tuple[str, ...]:
    """Return hooks that git would run in a repository: executable files in its hooks folder, sorted."""
    folder = os.path.join(git_folders(repository)[-1], "hooks")
    try:
        names = os.listdir(folder)
    except OSError:
        return ()
    return tuple(
        sorted(
            name
            for name in names
            if not name.endswith(".sample") and os.access(os.path.join(folder, name), os.X_OK)
        )
    )


def inert_options(settings: tuple[Setting, ...]) -> tuple[str, ...]:
    """Return options that switch off every program for a command that only reads: the fixed ones, and the
    repository's own filters by name. Raises `ToolError` for a name that cannot be switched off."""
    wanted = {**QUIET, **INERT}
    for setting in settings:
        section, _, rest = setting.key.partition(".")
        name, _, _variable = rest.rpartition(".")
        if not setting.is_own or section != "filter" or not name:
            continue
        if "=" in name:
            raise ToolError(
                "the repository's git configuration has a filter that cannot be switched off: "
                f"{setting.key[:80]!r}; look at .git/config"
            )
        for variable, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")):
            wanted[f"filter.{name}.{variable}"] = value
    return options(wanted)


NEUTRAL = {
    "core.askpass": "",
    "core.editor": "false",
    "core.hookspath": "/dev/null",
    "core.sshcommand": "ssh",
    "gpg.program": "gpg",
    "gpg.openpgp.program": "gpg",
    "gpg.ssh.program": "ssh-keygen",
    "gpg.x509.program": "gpgsm",
    "sequence.editor": "false",
}
"""Harmless values for keys of one name; all others are told by their last part."""

NEUTRAL_BY_VARIABLE = {
    "clean": "",
    "smudge": "",
    "process": "",
    "driver": "false",
    "command": "true",
    "uploadpack": "git-upload-pack",
    "receivepack": "git-receive-pack",
}
_OTHERWISE_KEPT_OUT = ("protocol.", "core.worktree", "core.fsmonitor", "alias.", "submodule.", "url.")
"""Own keys the fixed options, git's command line or the kind of command make harmless."""


def guarded_options(settings: tuple[Setting, ...], top: str) -> tuple[str, ...]:
    """Return options for a command that writes in a repository nobody trusts yet: the person's own programs
    run, those the repository brings do not. Raises `ToolError` for one that cannot be switched off."""
    persons: dict[str, list[str]] = {}
    for setting in settings:
        if not setting.is_own:
            persons.setdefault(setting.key, []).append(setting.value)
    hooks = persons.get("core.hookspath", [""])[-1]
    outside = hooks.startswith(("/", "~")) and not os.path.realpath(os.path.expanduser(hooks)).startswith(top)
    pairs = [*QUIET.items(), ("core.editor", "false"), ("core.hooksPath", hooks if outside else "/dev/null")]
    for key in dict.fromkeys(one.key for one in settings if one.is_own and one.runs_something):
        if key.startswith(_OTHERWISE_KEPT_OUT) or key == "core.hookspath":
            continue
        if "=" in key or "\n" in key:
            raise ToolError(
                "the repository's git configuration has a program that cannot be switched off: "
                f"{key[:80]!r}; look at .git/config, or trust the folder (/trust)"
            )
        pairs += [(key, value) for value in _persons_or_neutral(key, persons)]
    return tuple(part for key, value in pairs for part in ("-c", f"{key}={value}"))


def _persons_or_neutral(key: str, persons: dict[str, list[str]]) -> list[str]:
    variable = key.rpartition(".")[2]
    if variable == "helper":  # a list: an empty value empties it
        return ["", *persons.get(key, [])]
    if key in persons:
        return persons[key][-1:]
    return [NEUTRAL.get(key, NEUTRAL_BY_VARIABLE.get(variable, ""))]


def quiet_options() -> tuple[str, ...]:
    """Return options for a command that writes: its hooks and filters are what the person expects to run."""
    return options({**QUIET, "core.editor": "false"})


def options(settings: dict[str, str]) -> tuple[str, ...]:
    """Return settings as options of git."""
    return tuple(part for key, value in settings.items() for part in ("-c", f"{key}={value}"))
