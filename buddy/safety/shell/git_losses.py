"""git commands that throw work away for good, or have git start programs from now on."""

from __future__ import annotations

import re

from buddy.safety.git_keys import starts_program

_EVERYTHING = frozenset({".", "./", ":/", ":", "*", "./*", ":/*", ":(top)"})
_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"})
_KEY = re.compile(r"[A-Za-z][\w-]*\..+")


def git_loss(rest: tuple[str, ...]) -> str:
    """Why no mode runs a git command without asking, "" for most. `rest`: the words behind `git`."""
    name, words = _subcommand(rest)
    flags = "".join(word[1:] for word in words if re.fullmatch(r"-[A-Za-z]+", word))
    match name:
        case "clean" if ("f" in flags or "--force" in words) and "x" in flags.lower() and "d" in flags:
            return "git clean removes everything git does not know"
        case "reset" if "--hard" in words:
            return "git reset --hard throws away every change that is not committed"
        case "checkout" | "restore" if _EVERYTHING & set(words) and "--staged" not in words:
            return f"git {name} throws away the changes of the whole folder"
        case "checkout" | "switch" if "f" in flags or "--force" in words or "--discard-changes" in words:
            return f"git {name} --force throws away every change that is not committed"
        case "stash" if words[:1] == ["clear"]:
            return "git stash clear throws away every stash"
        case "push" if "f" in flags or any(re.match(r"--force\Z|--mirror|\+", word) for word in words):
            return "git push --force replaces commits on the server"
        case "reflog" if words[:1] in (["expire"], ["delete"]):
            return "git reflog expire makes lost commits unreachable"
        case "filter-branch" | "filter-repo":
            return f"git {name} rewrites the history"
        case "config":
            return _config(words)
        case _:
            return ""


def _subcommand(rest: tuple[str, ...]) -> tuple[str, list[str]]:
    """The subcommand and the words behind it."""
    words = list(rest)
    while words and words[0].startswith("-"):
        if words.pop(0) in _VALUED and words:
            words.pop(0)
    return (words[0], words[1:]) if words else ("", [])


def _config(words: list[str]) -> str:
    """A setting of git that starts programs, when it is written."""
    operands = [word for word in words if not word.startswith("-")]
    if operands[:1] == ["set"]:
        operands.pop(0)
    if len(operands) < 2 or any(word.startswith(("--get", "--unset")) for word in words):
        return ""
    at = next((at for at, word in enumerate(operands) if _KEY.fullmatch(word)), -1)
    if at < 0 or operands[0] in ("get", "unset", "list"):
        return ""
    value = operands[at + 1] if at + 1 < len(operands) else None
    return (
        f"git config sets {operands[at]}, which starts programs"
        if starts_program(operands[at], value)
        else ""
    )
