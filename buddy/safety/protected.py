"""Names that are dangerous to write and names that are dangerous to read, whatever the mode.

Everything is decided on the text of an absolute path, so it holds for names that don't exist yet. Letter case
never matters: the file system may not care about it either.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

import msgspec

from buddy.agent.pattern import pattern
from buddy.safety.protected_names import (
    IN_REASON,
    OWN,
    PIPELINE,
    PIPELINES,
    PIPELINES_IN,
    PROTECTED_ANYWHERE,
    PROTECTED_AT_HOME,
    PROTECTED_IN,
    SECRET_ANYWHERE,
    SECRET_AT_HOME,
    SECRET_ROOTS,
    SYSTEM_ROOTS,
)

_SECRET_NAME = pattern(
    r"""(?x)
      \.env(?![\w]).*            # .env, .env.local, .env-prod
    | \.envrc | .+\.env
    | .*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|keytab|tfvars|agekey)
    | id_(?:rsa|dsa|ecdsa|ed25519|xmss)\d*(?:[_.\-].*)?  # as ssh-keygen names them: id_ed25519_sk, id_rsa.old
    | service[-_]?account.*\.json
    | secrets?\.(?:ya?ml|json|toml|ini|env|properties|txt) | \.secrets?
    | \.?credentials?(?:\.(?:ya?ml|json|toml|ini|env|properties|txt|csv|xml|db))?
    | passwords?\.(?:txt|csv) | \.?vault[-_]pass(?:word)?(?:\.txt)?
    | client_secret.*\.json
    """
)
# What everything `_SECRET_NAME` matches begins or ends with; blanks and dots at the end do not count.
_SECRET_BEGINNINGS = (
    *(".env", "id_", "service", "secret", "client_secret"),
    *(".secret", "credential", ".credential", "password", "vault", ".vault"),
)
_SECRET_ENDS = (
    *(" ", ".", ".env", ".pem", ".key", ".p12", ".pfx", ".jks"),
    *(".keystore", ".kdbx", ".ppk", ".keytab", ".tfvars", ".agekey"),
)
_SECRET_PATHS = tuple(
    f"{name}/"
    for name, _ in SECRET_AT_HOME
    if name.startswith("/.") and name.count("/") > 1 and name != "/.local/share/buddy"
)
"""Places of a home folder that hold secrets in a copy of it, too. buddy's own holds worktrees."""
_SECRET_LAST = frozenset(path.split("/")[-2] for path in _SECRET_PATHS)
_EXAMPLE = pattern(
    r"\.env.*[._\-](?:example|sample|template|tmpl|dist|defaults?|schema)|example\.env|.*\.pub"
)
_PROCESS_SECRETS = pattern(r"/proc/[^/]+/(?:task/[^/]+/)?(?:environ|mem|auxv|maps|fd)(?:/.*)?")
_RUN_BY_PYTHON = pattern(r".*/site-packages/(?:.*/)?(?:[^/]*\.pth|usercustomize\.py)|.*/sitecustomize\.py")
_SHORT_NAME = pattern(r"([a-z0-9_-]{1,6})~[0-9]{1,3}(?:\.[a-z0-9]{1,3})?")
_IGNORED_BY_SOME_FILE_SYSTEMS = pattern("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u206a-\u206f\ufeff]")


class ProtectedPlaces(msgspec.Struct, frozen=True):
    """Folders a judgement depends on besides the path: the home folder, buddy's own directories where the
    environment moved them, and the workspace's folders."""

    home: str
    own: tuple[str, ...] = ()
    workspace: tuple[str, ...] = ()


def protected_reason(path: str, places: ProtectedPlaces) -> str:
    """Why writing this absolute path asks in every mode; "" when nothing speaks against it."""
    text = _folded(path)
    parts = text.split("/")
    for part in parts:
        reason = PROTECTED_ANYWHERE.get(part) or _by_windows_name(part, PROTECTED_ANYWHERE)
        if reason:
            return reason
    if lies_in(parts, PROTECTED_IN):
        return IN_REASON
    if parts[-1].endswith(".code-workspace"):
        return "editor settings: they can run commands"
    if _RUN_BY_PYTHON().fullmatch(text):
        return "run whenever Python starts"
    for directory in places.own:
        if _beneath(text, _folded(directory)):
            return OWN
    return _listed(text, PROTECTED_AT_HOME, places.home) or _system(text, places.workspace)


def pipeline_reason(path: str) -> str:
    """Why an edit of this absolute path asks, although it starts nothing on this machine; "" for most."""
    parts = _folded(path).split("/")
    named = next((PIPELINES[part] for part in parts if part in PIPELINES), "")
    return named or (PIPELINE if lies_in(parts, PIPELINES_IN) else "")


def lies_in(parts: Sequence[str], names: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether one of a path's parts, in lower case, has one of the names and lies in a folder that goes
    with it."""
    return any(
        part in names and f"/{'/'.join(parts[:at])}".endswith(tuple(names[part]))
        for at, part in enumerate(parts)
    )


def secret_reason(path: str, places: ProtectedPlaces) -> str:
    """Why reading this absolute path asks; "" when it looks like any other file."""
    text = _folded(path)
    parts = text.split("/")
    name = parts[-1]
    if _EXAMPLE().fullmatch(name):
        return ""
    for part in parts:
        reason = SECRET_ANYWHERE.get(part) or _by_windows_name(part, SECRET_ANYWHERE)
        if reason:
            return reason
    if _SECRET_NAME().fullmatch(name):
        return "its name says that it holds secrets"
    if "/." in text and any(place in f"{text}/" for place in _SECRET_PATHS):
        return "holds credentials"
    if _PROCESS_SECRETS().fullmatch(text):
        return "memory or environment of a process"
    return _listed(text, SECRET_AT_HOME, places.home) or _listed(text, SECRET_ROOTS, "")


def _by_windows_name(part: str, names: dict[str, str]) -> str:
    """The reason for what NTFS, which WSL shows as a folder, also takes for one of the names: a stream of it
    (`.git::$INDEX_ALLOCATION`), and its short name (`GIT~1`)."""
    if ":" not in part and "~" not in part:
        return ""
    whole = part.partition(":")[0].rstrip(" .")
    reason = names.get(whole, "")
    short = _SHORT_NAME().fullmatch(whole)
    if reason or short is None:
        return reason
    return next((why for name, why in names.items() if _short_stem(name) == short[1]), "")


def _short_stem(name: str) -> str:
    """Return the stem of a name's short (8.3) form: the first six letters, without dots and ending."""
    stem, _, ending = name.lstrip(".").rpartition(".")
    return re.sub(r"[^a-z0-9_-]", "", stem or ending)[:6]


def is_plain_name(name: str) -> bool:
    """Tell whether a file's name by itself cannot look secret: a fast test for listings of thousands. False
    is not a verdict; `secret_reason` decides then. The folders it lies in are not judged."""
    text = name.lower()
    return (
        text.isascii()
        and ":" not in text
        and "~" not in text
        and not text.startswith(_SECRET_BEGINNINGS)
        and not text.endswith(_SECRET_ENDS)
        and text not in SECRET_ANYWHERE
        and text not in _SECRET_LAST
    )


def _listed(text: str, names: Sequence[tuple[str, str]], base: str) -> str:
    """The reason of the first of the names, relative to `base`, that the path is or lies in."""
    base = _folded(base).rstrip("/")
    if not text.startswith(base + "/"):
        return ""
    tail = text[len(base) :]
    for name, reason in names:
        if tail.startswith(name) and _beneath(tail, name):
            return reason
    return ""


def _system(text: str, workspace: Sequence[str]) -> str:
    """As `_listed`, but a workspace that itself lies in a system folder (/usr/src/app in a container) is a
    workspace."""
    for name, reason in SYSTEM_ROOTS:
        if text.startswith(name) and _beneath(text, name):
            homes = [root for root in map(_folded, workspace) if _beneath(root, name)]
            return "" if any(_beneath(text, root) for root in homes) else reason
    return ""


def _beneath(text: str, directory: str) -> bool:
    return text == directory or text.startswith(directory.rstrip("/") + "/")


def _folded(path: str) -> str:
    """The path as the most forgiving file system would compare it: case, compatibility forms, ignorable
    characters, and blanks or dots after a name."""
    if path.isascii():
        text = path.lower()
    else:
        visible = _IGNORED_BY_SOME_FILE_SYSTEMS().sub("", path)
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())
    if ". " in text or "./" in text or " /" in text or text.endswith((" ", ".")):
        text = "/".join(part.rstrip(" .") for part in text.split("/"))
    return text
