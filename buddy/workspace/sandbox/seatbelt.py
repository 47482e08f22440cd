"""Level 1: a sandbox profile in the language of macOS's `sandbox-exec` (Seatbelt)."""

from __future__ import annotations

from buddy.workspace.sandbox.profile import SandboxProfile

PROGRAM = "/usr/bin/sandbox-exec"
_FIXED = """(version 1)
(allow default)
(deny network*)
(deny file-write*)
(deny process-info* (target others))
(deny signal (target others))
(deny mach-lookup)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.trustd")
  (global-name "com.apple.FSEvents"))
(deny system-socket)
(deny iokit-open)
(allow file-write*
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/dtracehelper"))
"""
_LOCALHOST = '(allow network* (local ip "localhost:*") (remote ip "localhost:*"))\n'


def seatbelt_argv(profile: SandboxProfile) -> tuple[str, ...]:
    """Return the words to put before a command."""
    return (PROGRAM, "-p", seatbelt_text(profile))


def seatbelt_text(profile: SandboxProfile) -> str:
    """Return the profile's text. Later rules win over earlier ones."""
    lines = [_FIXED]
    if profile.kind == "workspace":
        lines.append(_LOCALHOST)
    writable = (*profile.writable, profile.scratch)
    lines.append(_rule("allow file-write*", "subpath", writable))
    lines.append(_rule("deny file-write*", "subpath", profile.protected))
    # Moving a folder away would lift the protection of paths in it.
    lines.append(_rule("deny file-write-unlink", "literal", writable))
    lines.append(_rule("deny file-read* file-write*", "subpath", profile.hidden))
    lines.append(_rule("allow file-read*", "subpath", profile.reopened))
    return "".join(lines)


def _rule(action: str, filter_name: str, paths: tuple[str, ...]) -> str:
    if not paths:
        return ""
    places = "".join(f"\n  ({filter_name} {_quote(path)})" for path in paths)
    return f"({action}{places})\n"


def _quote(path: str) -> str:
    """Quote a string of Scheme, in which only backslash and quote are special."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
