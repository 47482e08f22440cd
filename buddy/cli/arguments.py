"""The command line: options mean the same before and after the subcommand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from buddy.agent.formatting import whole_number
from buddy.app.options import Options, UsageError

COMMANDS = {
    "help": ("[TOPIC]", "the manual"),
    "exec": ("PROMPT", "run one prompt without a terminal (also: buddy -p PROMPT); stdin is added to it"),
    "resume": ("[ID|NAME] [PROMPT]", "come back to a session; without its name: a choice"),
    "demo": ("", "try the whole program with a scripted model, no key"),
    "init": ("", "write a commented buddy.toml"),
    "login": ("[PROFILE]", "store a key"),
    "models": ("[TEXT]", "the models buddy knows"),
    "sessions": ("", "the sessions of this folder"),
    "doctor": ("", "what works here and what doesn't"),
    "permissions": ("test [COMMAND]", "what would be asked"),
}
"""The words a command takes, and what it does."""

LATER = frozenset({"mcp", "serve", "acp", "replay"})
"""Commands that a later version will have: nobody means them as a prompt."""


_WORK = "open exec resume"
OPTIONS = (
    ("-m --model", "NAME", f"{_WORK} doctor",
     "a profile of buddy.toml, or provider/model in litellm's words"),
    ("--permission-mode", "MODE", _WORK,
     "plan, ask, edit, auto, or yolo (as root outside a container only with --i-know)"),
    ("--i-know", "", "", ""),
    ("--trust", "", _WORK, "trust this folder's configuration for this run"),
    ("-c --continue --last", "", _WORK, "go on with the newest session of this folder"),
    ("-r --resume", "ID", "open exec", "go on with a session: its id or how that begins, its name, or last"),
    ("--fork", "", _WORK, "with --continue or --resume: go on in a copy"),
    ("--add-dir", "DIR", _WORK, "a further directory to work in"),
    ("-w --worktree", "[=NAME]", "open exec", "work in a git worktree of its own, on the branch buddy/NAME"),
    ("--carry", "", "open exec", "with --worktree: take uncommitted changes along"),
    ("--config", "FILE", "open exec resume login models sessions doctor",
     "another buddy.toml of your own"),
    ("--color", "WHEN", "open resume demo models sessions doctor permissions",
     "auto, always, never; NO_COLOR wins over auto"),
    ("--plain", "", "open resume demo", "lines only, for screen readers: nothing moves or is drawn again"),
    ("--debug", "", _WORK, "write a log, whose path is printed, and crashes in detail"),
    ("-p --print", "", "init", "show every setting, write nothing"),
    ("--force", "", "init", "replace what buddy init wrote before"),
    ("--all", "", "sessions", "runs of exec and sessions without an answer too"),
    ("--output-format", "FORMAT", "exec", "text, json, stream-json or sse; --json is json"),
    ("--json", "", "sessions doctor permissions", "for programs"),
    ("--include-partial-messages", "", "exec", "with stream-json: text as it arrives"),
    ("-o --output", "FILE", "exec", "write the answer to a file"),
    ("--max-turns", "N", "exec", "stop after so many replies"),
    ("--max-cost", "DOLLARS", "exec", "stop before it costs more"),
    ("--allow", "RULE", "exec", 'what runs without asking: "Bash(git log:*)"'),
    ("--permission-prompts", "HOW", "exec", "when an approval is needed and nobody is there: deny (skip the "
     "call, go on, and end with exit code 3) or fail (stop at once)"),
    ("--ephemeral", "", "exec", "keep no session"),
    ("--require-trust", "", "exec", "go on only in a folder you trust"),
    ("-h --help", "", f"open {' '.join(COMMANDS)}", "this; buddy COMMAND --help: the options of a command"),
    ("-V --version", "", "open", "the version"),
)  # fmt: skip
"""Names, value, the commands whose help lists it, and what it does. Every option is taken anywhere."""
_FIELDS = {"--last": "resume_last", "--worktree": "in_worktree"}
_CHOICES = {
    "output_format": ("text", "json", "stream-json", "sse"),
    "permission_prompts": ("deny", "fail"),
    "color": ("auto", "always", "never"),
}
_ALONE = ("init", "sessions", "doctor", "demo")
"""Subcommands that take no words: what follows was meant as a prompt."""
_JSON_OF_THEIR_OWN = ("sessions", "permissions", "doctor")
_NOTHING_TO_FORMAT = ("help", "init", "login", "models", "demo")


def parse(arguments: Sequence[str]) -> Options:
    """The options, or a `UsageError` that says what was expected."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    head, literal = list(arguments[:end]), list(arguments[end + 1 :])
    if head and head[0] in LATER:
        raise UsageError(_later(arguments))
    found, words = _read(head) if any(word.startswith("-") for word in head) else ({}, head)
    if words and words[0] in LATER and not found.keys() & {"print", "help"}:
        raise UsageError(_later(arguments[head.index(words[0]) :]))
    for word in words:
        if word.startswith("-") and len(word) > 1 and " " not in word:
            raise UsageError(_unknown(word))
    _check_values(found)
    # `buddy help me understand this` is a prompt: a topic is one word.
    is_prompt = words[:1] == ["help"] and ("print" in found or len(words) + len(literal) > 2)
    command = words.pop(0) if words and words[0] in COMMANDS and not is_prompt else ""
    is_bare = bool(words) and not (command or is_prompt or "print" in found)
    if is_bare and (advice := _mistaken([*words, *literal])):
        raise UsageError(advice)
    words.extend(literal)
    if "help" not in found:
        _check_together(found, command, words)
    return msgspec.convert({**found, "command": command, "words": words}, Options)


def _read(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The fields that options set, and the other words: those of the prompt, and unknown options."""
    import argparse  # here: a start without options need not pay for it

    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, exit_on_error=False, argument_default=argparse.SUPPRESS
    )
    parser.add_argument(_NAMED, dest="worktree")
    for names, value, _takers, _help in OPTIONS:
        strings = names.split()
        action = "append" if value in ("DIR", "RULE") else "store" if value.isalpha() else "store_true"
        parser.add_argument(*strings, action=action, dest=_FIELDS.get(strings[-1]))
    try:
        found, rest = parser.parse_known_args([_marked(word) for word in words])
    except argparse.ArgumentError as error:
        raise UsageError(_refused(error.argument_name or "", error.message, words)) from None
    return vars(found), [word.removeprefix(_PROMPT) for word in rest]


_NAMED = "--worktree-name"
"""--worktree=NAME, apart from --worktree: that takes no word of the prompt for its name."""
_PROMPT = " "
"""Put before a prompt like "-m fails", or argparse takes it for -m and its value."""


def _marked(word: str) -> str:
    if word.startswith("--worktree="):
        return word.replace("--worktree", _NAMED, 1)
    return _PROMPT + word if word.startswith("-") and " " in word.partition("=")[0] else word


def _refused(names: str, message: str, words: Sequence[str]) -> str:
    """argparse's message in our words, with the name as it was typed."""
    typed = {word.partition("=")[0] for word in words}
    name = next((name for name in names.split("/") if name in typed), names.partition("/")[0])
    if message.startswith("ignored explicit argument"):
        return f"{name} takes no value, found {message.removeprefix('ignored explicit argument ')}"
    return f"{name} needs a value"


def _check_values(found: dict[str, Any]) -> None:
    """Raise `UsageError` for a value its option can't have; numbers and the mode get their own types."""
    for field, choices in _CHOICES.items():
        if (value := found.get(field, choices[0])) not in choices:
            raise UsageError(f"--{field.replace('_', '-')} is one of {', '.join(choices)}; found {value!r}")
    if (mode := found.get("permission_mode")) is not None:
        found["permission_mode"] = _mode(mode)
    if (turns := found.get("max_turns")) is not None:
        found["max_turns"] = whole_number(turns)
        if not found["max_turns"]:
            raise UsageError(f"--max-turns needs a whole number from 1, found {turns[:40]!r}")
    if (dollars := found.get("max_cost")) is not None:
        found["max_cost"] = _money(dollars)
    if "worktree" in found:
        if not found["worktree"]:
            raise UsageError("--worktree= needs a name; without = it gets one by itself")
        found["in_worktree"] = True


def _check_together(found: dict[str, Any], command: str, words: Sequence[str]) -> None:
    """Raise `UsageError` for options and words that mean nothing beside the others; settle what --json
    means."""
    if words and command in _ALONE:
        import shlex  # here: only who is mistaken pays for it

        raise UsageError(
            f"buddy {command} takes no words. As a prompt: buddy -- {command} {shlex.join(words)}"
        )
    if "json" in found and command in _NOTHING_TO_FORMAT:
        raise UsageError(f"buddy {command} has no --json; exec, sessions, permissions and doctor have")
    is_exec = "json" in found and command not in _JSON_OF_THEIR_OWN
    if is_exec and found.setdefault("output_format", "json") != "json":
        raise UsageError(f"--json and --output-format {found['output_format']} exclude each other")
    if "include_partial_messages" in found and found.get("output_format") != "stream-json":
        raise UsageError("--include-partial-messages goes with --output-format stream-json")
    if "in_worktree" in found and (command == "resume" or found.keys() & {"resume", "resume_last"}):
        raise UsageError("--worktree is for new sessions; one that is resumed goes on where it was")
    if "carry" in found and "in_worktree" not in found:
        raise UsageError("--carry goes with --worktree: it takes uncommitted changes along")


def resuming(options: Options) -> Options:
    """`buddy resume`: the first word names the session, or an option has named it already; what follows is
    the prompt. Other commands stay as they are."""
    if options.command != "resume" or options.resume or options.resume_last:
        return options
    reference = options.words[0] if options.words else "last"
    return msgspec.structs.replace(options, resume=reference, words=options.words[1:])


def _mode(value: str) -> str:
    """The mode's name in buddy's words: everything that compares modes sees these alone."""
    from buddy.safety.policy.decide import CLAUDE_MODES, MODES, mode_by_name  # only who gives one pays for it

    mode = mode_by_name(value)
    if mode is None:
        others = [name for name in CLAUDE_MODES if name not in MODES]
        expected = f"{', '.join(MODES)} (also {', '.join(others)})"
        raise UsageError(f"--permission-mode is one of {expected}; found {value!r}")
    return mode


def _money(value: str) -> float:
    try:
        amount = float(value)
    except ValueError:
        amount = -1
    if not 0 < amount < float("inf"):
        raise UsageError(f"--max-cost needs an amount of dollars above 0, found {value!r}")
    return amount


def _later(words: Sequence[str]) -> str:
    import shlex  # here: only who is mistaken pays for it

    return (
        f"buddy {words[0]} is not part of this version; `buddy --help` lists what is. "
        f"To send it as a prompt: buddy exec -- {shlex.join(words)}"
    )


def _mistaken(words: Sequence[str]) -> str:
    if " " in words[0] or (len(words) > 3 and not any(_shares_letters(words[0], one) for one in COMMANDS)):
        return ""
    from buddy.cli.mistaken import mistaken_command  # 1 ms, for short prompts and words near a subcommand

    return mistaken_command(words, COMMANDS)


def _shares_letters(word: str, name: str) -> bool:
    """Tell whether a word shares most of its letters with a name, in any order; otherwise it cannot be
    similar."""
    common = sum(min(word.count(letter), name.count(letter)) for letter in set(name))
    return 2 * common >= 0.8 * (len(word) + len(name))


def _unknown(word: str) -> str:
    import difflib  # here: 1 ms that a start need not pay

    name = word.partition("=")[0]
    known = [name for names, *_ in OPTIONS for name in names.split()]
    # An option that has the word as one of its own comes before one that only looks like it:
    # --format is --output-format, not --fork.
    near = [one for one in known if name[2:] in one[2:].split("-")] if len(name) > 4 else []
    near = near or difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else "; buddy --help lists them"
    return f"unknown option {word!r}{hint}"
