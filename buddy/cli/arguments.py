"""The command line: options mean the same before and after the subcommand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from buddy.agent.typed_number import whole_number

COMMANDS = {
    "help": "the manual: buddy help [topic]",
    "exec": "run one prompt without a terminal: buddy exec PROMPT",
    "resume": "come back to a session: its ID, name, or a choice",
    "demo": "try the whole program with a scripted model, no key",
    "init": "write a commented buddy.toml (--print: show all)",
    "login": "store a key: buddy login [profile]",
    "models": "the models buddy knows: buddy models [text]",
    "sessions": "the sessions of this folder; --all, --json",
    "doctor": "what works here and what doesn't",
    "permissions": "what would be asked: permissions test [COMMAND]",
}

LATER = frozenset({"mcp", "serve", "acp", "replay"})
"""Commands that a later version will have: nobody means them as a prompt."""


class UsageError(Exception):
    """Arguments buddy can't use; one line for the person, exit code 2."""


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
    max_turns: int = 0
    max_cost: float = 0
    allow: tuple[str, ...] = ()
    output: str = ""
    color: str = ""
    plain: bool = False
    json: bool = False
    all: bool = False
    force: bool = False
    help: bool = False


_FLAGS = {
    "--carry": "carry",
    "--trust": "trust", "--require-trust": "require_trust", "--i-know": "i_know", "--debug": "debug",
    "--continue": "resume_last", "-c": "resume_last", "--last": "resume_last", "--fork": "fork",
    "--ephemeral": "ephemeral", "-p": "print", "--print": "print", "--plain": "plain", "--json": "json",
    "--all": "all", "--force": "force",
    "--include-partial-messages": "include_partial_messages", "-h": "help", "--help": "help",
}  # fmt: skip
_VALUES = {
    "--model": "model", "-m": "model", "--permission-mode": "permission_mode",
    "--permission-prompts": "permission_prompts", "--add-dir": "add_dir", "--config": "config",
    "--resume": "resume", "-r": "resume", "--output-format": "output_format", "--max-turns": "max_turns",
    "--max-cost": "max_cost", "--allow": "allow", "-o": "output", "--output": "output", "--color": "color",
}  # fmt: skip
_CHOICES = {
    "output_format": ("text", "json", "stream-json", "sse"),
    "permission_prompts": ("deny", "fail"),
    "color": ("auto", "always", "never"),
}

HELP = """\
buddy: a coding assistant for the terminal whose prompt never goes away.

  buddy [options] [PROMPT]  open it, PROMPT being the first message
  buddy exec PROMPT         one prompt without a terminal (also: buddy -p
                            PROMPT); what stdin has is added to it
{commands}

options
  -m, --model NAME          a profile of buddy.toml, or a model in litellm's
                            words: provider/model
  --permission-mode MODE    plan, ask, edit, auto, or yolo (as root outside a
                            container only with --i-know)
  --trust                   trust this folder's configuration for this run
  -c, --continue            go on with the newest session of this folder
  -r, --resume ID           go on with a session: its id or the beginning of
                            that, its name, or last
  --fork                    with --continue or --resume: go on in a copy
  --add-dir DIR             a further directory to work in
  -w, --worktree[=NAME]     work in a git worktree of its own, on the branch
                            buddy/NAME
  --carry                   with --worktree: take uncommitted changes along
  --config FILE             another buddy.toml of your own
  --color WHEN              auto, always, never; NO_COLOR wins over auto
  --plain                   lines only, for screen readers: nothing moves,
                            nothing is drawn again
  --debug                   write a log; its path is printed
  --version

without a terminal
  --output-format FORMAT    text, json, stream-json or sse; --json is json
  --include-partial-messages
                            with stream-json: text as it arrives
  -o, --output FILE         write the answer to a file
  --max-turns N             stop after so many replies
  --max-cost DOLLARS        stop before it costs more
  --allow RULE              what runs without asking: "Bash(git log:*)"
  --permission-prompts HOW  when an approval is needed and nobody is there:
                            deny (skip the call, go on, and end with exit
                            code 3) or fail (stop at once)
  --ephemeral               keep no session
  --require-trust           go on only in a folder you trust
"""


def help_text() -> str:
    """The help, with the list of subcommands."""
    rows = [f"  buddy {name:<19} {text}" for name, text in COMMANDS.items() if name != "exec"]
    return HELP.format(commands="\n".join(rows))


def parse(arguments: Sequence[str]) -> Options:
    """The options, or a `UsageError` that says what was expected."""
    found: dict[str, object] = {}
    words: list[str] = []
    literal: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            literal = rest
            break
        name, equals, given = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in ("--worktree", "-w"):
            if equals and not given:
                raise UsageError("--worktree= needs a name; without = it gets one by itself")
            found |= {"in_worktree": True, "worktree": given}
        elif name in _FLAGS:
            if equals:
                raise UsageError(f"{name} takes no value, found {given!r}")
            found[_FLAGS[name]] = True
        elif name in _VALUES:
            if not equals and not rest:
                raise UsageError(f"{name} needs a value")
            _put(found, _VALUES[name], given if equals else rest.pop(0), name)
        elif word.startswith("-") and len(word) > 1 and " " not in word:
            raise UsageError(_unknown(word))
        else:
            if word in LATER and not words and not found.keys() & {"print", "help"}:
                raise UsageError(_later([word, *rest]))
            words.append(word)
    # `buddy help me understand this` is a prompt: a topic is one word.
    is_prompt = words[:1] == ["help"] and ("print" in found or len(words) + len(literal) > 2)
    command = words.pop(0) if words and words[0] in COMMANDS and not is_prompt else ""
    is_bare = bool(words) and not (command or is_prompt or "print" in found)
    if is_bare and (advice := _mistaken([*words, *literal])):
        raise UsageError(advice)
    words.extend(literal)
    _check_together(found, command, words)
    _check_together(found, command, words)
    if "in_worktree" in found and (command == "resume" or found.keys() & {"resume", "resume_last"}):
        raise UsageError("--worktree is for new sessions; one that is resumed goes on where it was")
    if "carry" in found and "in_worktree" not in found:
        raise UsageError("--carry goes with --worktree: it takes uncommitted changes along")
    return msgspec.convert({**found, "command": command, "words": words}, Options)


_ALONE = ("init", "sessions", "doctor", "demo")
"""Subcommands that take no words: what follows was meant as a prompt."""
_JSON_OF_THEIR_OWN = ("sessions", "permissions", "doctor")
_NOTHING_TO_FORMAT = ("help", "init", "login", "models", "demo")


def _check_together(found: dict[str, object], command: str, words: Sequence[str]) -> None:
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


def resuming(options: Options) -> Options:
    """`buddy resume`: the first word names the session, or an option has named it already; what follows is
    the prompt. Other commands stay as they are."""
    if options.command != "resume" or options.resume or options.resume_last:
        return options
    reference = options.words[0] if options.words else "last"
    return msgspec.structs.replace(options, resume=reference, words=options.words[1:])


def _put(found: dict[str, object], field: str, value: str, name: str) -> None:
    if field in ("add_dir", "allow"):
        several = cast("list[str]", found.setdefault(field, []))
        several.append(value)
    elif field == "permission_mode":
        found[field] = _mode(value)
    elif field == "max_turns":
        if not (number := whole_number(value)):
            raise UsageError(f"{name} needs a whole number from 1, found {value[:40]!r}")
        found[field] = number
    elif field == "max_cost":
        found[field] = _money(value, name)
    elif field in _CHOICES and value not in _CHOICES[field]:
        raise UsageError(f"{name} is one of {', '.join(_CHOICES[field])}; found {value!r}")
    else:
        found[field] = value


def _mode(value: str) -> str:
    """The mode's name in buddy's words: everything that compares modes sees these alone."""
    from buddy.safety.policy_table import CLAUDE_MODES, MODES, mode_named  # only who gives one pays for it

    mode = mode_named(value)
    if mode is None:
        others = [name for name in CLAUDE_MODES if name not in MODES]
        expected = f"{', '.join(MODES)} (also {', '.join(others)})"
        raise UsageError(f"--permission-mode is one of {expected}; found {value!r}")
    return mode


def _money(value: str, name: str) -> float:
    try:
        amount = float(value)
    except ValueError:
        amount = -1
    if not 0 < amount < float("inf"):
        raise UsageError(f"{name} needs an amount of dollars above 0, found {value!r}")
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
    known = [*_FLAGS, *_VALUES, "--worktree", "--version"]
    # An option that has the word as one of its own comes before one that only looks like it:
    # --format is --output-format, not --fork.
    near = [one for one in known if name[2:] in one[2:].split("-")] if len(name) > 4 else []
    near = near or difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else "; buddy --help lists them"
    return f"unknown option {word!r}{hint}"
