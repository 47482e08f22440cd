"""The table of git's settings that start programs, or choose a program, file or server.

Collected from git-config(1) and the manuals it names. A repository unpacked from an archive brings its own
configuration, so each of these may be a stranger's command line.
"""

from __future__ import annotations

import re

from buddy.agent.lazy_regex import pattern

_KEYS = pattern(
    r"""core\.(?:fsmonitor|hookspath|sshcommand|gitproxy|askpass|editor|pager|alternaterefscommand|worktree)
      | sequence\.editor | pager\..+ | interactive\.difffilter
      | alias\..+ | hook\..+
      | include\.path | includeif\..+\.path
      | filter\..+\.(?:clean|smudge|process)
      | diff\.external | diff\..+\.(?:command|textconv)
      | merge\..+\.driver
      | (?:diff|merge)\.(?:gui)?tool | (?:diff|merge)tool\..+\.(?:cmd|path)
      | log\.(?:diffmerges|showsignature)
      | gpg\.(?:.+\.)?(?:program|defaultkeycommand)
      | credential\.(?:.+\.)?helper
      | extensions\.partialclone | remote\..+\.(?:promisor|partialclonefilter)
      | remote\..+\.(?:uploadpack|receivepack|vcs|proxy)
      | uploadpack\.packobjectshook | protocol\.(?:.+\.)?allow | ssh\.variant
      | trailer\..+\.(?:command|cmd)
      | init\.templatedir | tar\..+\.command | imap\.tunnel
      | (?:browser|man|guitool)\..+\.(?:cmd|path) | web\.browser | help\.browser | instaweb\..+
      | sendemail\.(?:.+\.)?(?:smtpserver|sendmailcmd|tocmd|cccmd|headercmd)
      | svn\..+\.(?:authors-?prog) | lfs\.(?:customtransfer|extension)\..+
      | gc\.recentobjectshook""",
    re.VERBOSE,
)
"""Keys (section and variable in lower case) whose value is run, or decides which program is run."""

_FILES = pattern(
    r"""blame\.ignorerevsfile | core\.(?:excludesfile|attributesfile) | commit\.template
      | (?:.+\.)?fsck\.skiplist | mailmap\.(?:file|blob) | diff\.orderfile | format\.signaturefile
      | gpg\.ssh\.(?:allowedsignersfile|revocationfile) | http\.(?:.+\.)?(?:cookiefile|ssl.+)
      | fetch\.bundleuri | extensions\.refstorage | log\..*file""",
    re.VERBOSE,
)
"""Keys whose value is a file that git reads; git prints the lines it does not understand."""

_BOOLEANS = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1"})
_MAY_BE_BOOLEAN = ("core.fsmonitor", "pager.")
_HARMLESS_DIFF_MERGES = frozenset(
    {"off", "none", "on", "m", "first-parent", "1", "separate", "c", "combined", "cc", "dense-combined"}
)
_FALSE = frozenset({"false", "no", "off", "0"})


def names_file(key: str) -> bool:
    """Tell whether the value of a setting is a file that git reads."""
    return _FILES().fullmatch(key.lower()) is not None


def starts_program(key: str, value: str | None) -> bool:
    """Tell whether a setting is a command line, or decides which program, file or server git uses. `value` is
    None when it is not known."""
    section, _, rest = key.partition(".")
    subsection, _, variable = rest.rpartition(".")
    section, variable = section.lower(), variable.lower()
    key = f"{section}.{subsection}.{variable}" if subsection else f"{section}.{variable}"
    if value is not None:
        value = value.strip()
        harmless = _is_harmless(section, subsection, variable, key, value)
        if harmless is not None:
            return not harmless
    if (section, variable) in (("url", "insteadof"), ("url", "pushinsteadof"), ("submodule", "update")):
        return True
    return _KEYS().fullmatch(key) is not None


def _is_harmless(section: str, subsection: str, variable: str, key: str, value: str) -> bool | None:
    """Tell whether a value is harmless where the value decides; None where the key alone does."""
    if section == "alias" or (section == "submodule" and variable == "update"):
        return not value.startswith("!")
    if section == "url" and variable in ("insteadof", "pushinsteadof"):
        return "::" not in subsection
    if section == "remote" and variable in ("url", "pushurl"):
        return "::" not in value
    if key.startswith(_MAY_BE_BOOLEAN) and value.lower() in _BOOLEANS:
        return True
    if key == "log.diffmerges":
        return value.lower() in _HARMLESS_DIFF_MERGES
    if key == "log.showsignature" or (section == "remote" and variable == "promisor"):
        return value.lower() in _FALSE
    return None
