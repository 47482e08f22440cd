"""The command line. Options mean the same before and after the subcommand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from buddy.agent.formatting import whole_number
from buddy.app.options import Options, UsageError


class CommandRow(msgspec.Struct, frozen=True):
    """A subcommand. `words`: the words it takes, "" for none (words after it were meant as a prompt). `json`:
    with --json it prints its own, or the events of a run, or it refuses the option."""

    words: str
    description: str
    json: Literal["own", "run", "none"]


COMMANDS = {
    "help": CommandRow("[TOPIC]", "the manual", "none"),
    "exec": CommandRow(
        "PROMPT", "run one prompt without a terminal (also: buddy -p PROMPT); stdin is added to it", "run"
    ),
    "resume": CommandRow("[ID|NAME] [PROMPT]", "resume a session; without a name, choose one", "run"),
    "demo": CommandRow("", "try the whole program with a scripted model, no key", "none"),
    "init": CommandRow("", "write a commented buddy.toml", "none"),
    "login": CommandRow("[PROFILE]", "store a key", "none"),
    "models": CommandRow("[TEXT]", "list the models buddy knows", "none"),
    "sessions": CommandRow("", "list the sessions of this folder", "own"),
    "mcp": CommandRow("add|add-json|list|get|remove|login|logout|test", "MCP servers", "none"),
    "plugin": CommandRow("[add SOURCE|list|remove NAME]", "add, list or remove plug-in folders", "none"),
    "acp": CommandRow("", "serve an editor over stdin and stdout (Agent Client Protocol)", "none"),
    "serve": CommandRow("[ID|NAME]", "show a session in the browser", "none"),
    "doctor": CommandRow("", "check what works here", "own"),
    "permissions": CommandRow("[list|test [COMMAND]]", "list your rules; show what would be asked", "own"),
    "import": CommandRow(
        "[sessions [NAME]]", "take over settings and sessions of other coding assistants", "none"
    ),
    "new": CommandRow(
        "[TEMPLATE DIR [NAME=VALUE …]]", "create a project from a template; alone, list the templates", "none"
    ),
    "completion": CommandRow("bash|zsh|fish", "print a completion script for a shell", "none"),
}
"""One row for each branch of `_dispatch` in `cli/main.py`; `exec` and `resume` share its last one."""

LATER = frozenset({"replay"})
"""Commands of a later version: nobody means them as a prompt."""


_WORK = "open exec resume"
OPTIONS = (
    ("-m --model", "NAME", f"{_WORK} acp serve doctor",
     "a profile of buddy.toml, or provider/model, like openai/gpt-5.2"),
    ("--permission-mode", "MODE", f"{_WORK} acp serve",
     "plan, ask, edit, auto, or yolo (as root outside a container only with --i-know)"),
    ("--i-know", "", "", ""),
    ("--trust", "", f"{_WORK} acp serve", "trust this folder's configuration for this run"),
    ("-c --continue --last", "", f"{_WORK} serve", "continue the newest session of this folder"),
    ("-r --resume", "ID", "open exec", "continue a session: its id or the start of it, its name, or last"),
    ("--fork-session --fork", "", f"{_WORK} serve", "with --continue or --resume: continue in a copy"),
    ("--add-dir", "DIR", f"{_WORK} acp serve", "a further directory to work in"),
    ("-w --worktree", "[=NAME]", "open exec", "work in a separate git worktree, on the branch buddy/NAME"),
    ("--carry", "", "open exec", "with --worktree: copy uncommitted changes into it"),
    ("--target", "NAME", f"{_WORK} serve",
     "work on another machine or in a container: [targets.NAME] of your buddy.toml"),
    ("--config", "FILE", "open exec resume acp serve login models sessions doctor permissions",
     "use this buddy.toml as your own settings"),
    ("--color", "WHEN", "open resume demo models sessions doctor permissions",
     "auto, always, never; NO_COLOR wins over auto"),
    ("--plain", "", "open resume demo", "print lines only, for screen readers: nothing is redrawn"),
    ("--debug", "", f"{_WORK} acp serve", "write a log and print its path; show crashes in detail"),
    ("-p --print", "", "init import new", "show what would be written, write nothing"),
    ("-y --yes", "", "import new", "write without asking"),
    ("--wide", "", "import", "take over rules, too, that allow more than their words say"),
    ("--force", "", "init", "replace the file; a copy and your models are kept"),
    ("--all", "", "sessions", "include runs of exec and sessions without an answer"),
    ("--output-format", "FORMAT", "exec", "text, json, stream-json, sse or codex-json; --json is json"),
    ("--json", "", "sessions doctor permissions", "print JSON, for programs"),
    ("--include-partial-messages", "", "exec", "with stream-json: write text as it arrives"),
    ("--input-format", "FORMAT", "exec", "text, or stream-json: messages and requests of a program"),
    ("--verbose", "", "", ""),
    ("--replay-user-messages", "", "", ""),
    ("--permission-prompt-tool", "NAME", "", ""),
    ("--system-prompt", "TEXT", "exec", "use this system prompt instead of buddy's"),
    ("--system-prompt-file", "FILE", "", ""),
    ("--append-system-prompt", "TEXT", "exec", "add to the system prompt"),
    ("--append-system-prompt-file", "FILE", "", ""),
    ("--allowedTools --allowed-tools", "RULES", "", ""),
    ("--disallowedTools --disallowed-tools", "RULES", "exec", "leave out tools, or deny calls"),
    ("--tools", "NAMES", "exec", 'offer only these tools: "Read,Grep"; default offers all'),
    ("--settings", "FILE", "exec", "a JSON file, or JSON, in the form of Claude Code"),
    ("--setting-sources", "NAMES", "", ""),
    ("--json-schema --output-schema", "FILE", "exec", "the answer is JSON of this schema, else exit code 6"),
    ("--effort", "LEVEL", "exec", "how hard it thinks: none, minimal, low to max"),
    ("--thinking", "KIND", "", ""),
    ("--max-thinking-tokens", "N", "", ""),
    ("--session-id", "UUID", "exec", "the id of the new session"),
    ("--agents", "JSON", "", ""),
    ("--plugin-dir", "DIR", "exec", "load a plug-in for this run"),
    ("--allow-dangerously-skip-permissions", "", "", ""),
    ("--dangerously-skip-permissions", "", "", ""),
    ("-C --cd", "FOLDER", "exec", "work in this folder"),
    ("-i --image", "PICTURE", "exec", "attach a picture to the prompt"),
    ("-o --output", "FILE", "exec", "write the answer to a file"),
    ("--variants", "TRIES", "exec", "several tries at once: a number, or fast,opus"),
    ("--max-turns", "N", "exec", "stop after this many replies"),
    ("--max-budget-usd --max-cost", "DOLLARS", "exec", "stop before the run costs more"),
    ("--allow", "RULE", "exec", 'allow calls without asking: "Bash(git log:*)"'),
    ("--permission-prompts", "HOW", "exec", "when a call needs an approval: deny (skip "
     "it, go on, end with exit code 3) or fail (stop at once)"),
    ("--mcp-config", "CONFIG", f"{_WORK} acp serve",
     "a file with MCP servers, or their JSON; can be repeated"),
    ("--strict-mcp-config", "", f"{_WORK} acp serve", "use no MCP servers but those of --mcp-config"),
    ("--port", "N", "serve", "the port on 127.0.0.1; without it, a free one"),
    ("--socket", "PATH", "serve", "listen on this unix socket instead of a port"),
    ("-t --transport", "KIND", "mcp", "add: stdio, http or sse; without it, by what is given"),
    ("-s --scope", "SCOPE", "mcp", "add, remove: local (this folder, yours; the usual one), user, or project "
     "(.mcp.json)"),
    ("-e --env", "VARIABLE", "mcp", "add: KEY=VALUE for a server with a command; can be repeated"),
    ("-H --header", "HEADER", "mcp", "add: 'NAME: VALUE' for a server with an address; can be repeated"),
    ("--no-session-persistence --ephemeral", "", "exec", "delete the session at the end"),
    ("--require-trust", "", "exec", "refuse to run in a folder you don't trust"),
    ("-h --help", "", f"open {' '.join(COMMANDS)}", "show this help; buddy COMMAND --help: its options"),
    ("-V --version", "", "open", "show the version"),
)  # fmt: skip
"""Names, value, the commands whose help lists it, and its description. Every option is accepted anywhere."""
_REPEATED = ("DIR", "RULE", "CONFIG", "VARIABLE", "HEADER", "PICTURE")
"""Values of options that can be given several times."""
_OF_MCP = ("transport", "scope", "env", "header")
_FIELDS = {
    "--last": "resume_last",
    "--worktree": "in_worktree",
    "--fork": "fork",
    "--max-cost": "max_cost",
    "--allowed-tools": "allowed_tools",
    "--disallowed-tools": "disallowed",
    "--output-schema": "json_schema",
    "--image": "images",
    "--ephemeral": "ephemeral",
}
CHOICES = {
    "input_format": ("text", "stream-json"),
    "output_format": ("text", "json", "stream-json", "sse", "codex-json"),
    "permission_prompts": ("deny", "fail"),
    "color": ("auto", "always", "never"),
    "transport": ("stdio", "http", "sse"),
    "scope": ("local", "user", "project"),
}
"""The values of options that have a few, by field."""


def parse(arguments: Sequence[str]) -> Options:
    """Parse the command line. Raises `UsageError` that says what was expected."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    head, literal = list(arguments[:end]), list(arguments[end + 1 :])
    if "--experimental-json" in head:
        from buddy.cli.other_assistants import translate  # only for Codex's SDK

        head = translate(head)
    if head and head[0] in LATER:
        raise UsageError(_later(arguments))
    fields, words = _read(head) if any(word.startswith("-") for word in head) else ({}, head)
    if words and words[0] in LATER and not fields.keys() & {"print", "help"}:
        raise UsageError(_later(arguments[head.index(words[0]) :]))
    for word in words:
        if word.startswith("-") and len(word) > 1 and " " not in word:
            raise UsageError(_unknown(word))
    _check_values(fields)
    if (allowed := fields.pop("allowed_tools", None)) is not None:
        fields["allow"] = [*fields.get("allow", []), *_split_rules(allowed)]
    _take_aliases(fields)
    # `buddy help me understand this` is a prompt: a topic is one word. `buddy -p doctor` is one too.
    is_prompt = words[:1] == ["help"] and ("print" in fields or len(words) + len(literal) > 2)
    is_prompt = is_prompt or (words[:1] != [] and "print" in fields and _stands_first(head))
    command = words.pop(0) if words and words[0] in COMMANDS and not is_prompt else ""
    is_bare = bool(words) and not (command or is_prompt or "print" in fields)
    if is_bare and (advice := _mistaken([*words, *literal])):
        raise UsageError(advice)
    words.extend(literal)
    if "help" not in fields:
        _check_together(fields, command, words)
    return msgspec.convert({**fields, "command": command, "words": words}, Options)


_PRINTING = ("exec", "resume", "init", "import", "new")
"""Commands that -p may follow: it runs the first two without a terminal, the others only show."""


def _stands_first(words: Sequence[str]) -> bool:
    """Tell whether -p stands before the first word that is neither an option nor its value."""
    for end in range(1, len(words) + 1):
        try:
            fields, before = _read(words[:end])
        except UsageError:
            continue  # the value of its last option comes next
        if "print" in fields:
            return not before
    return False


def _take_aliases(fields: dict[str, Any]) -> None:
    """Replace options that are another way to write one. Raises `UsageError`."""
    if (disallowed := fields.pop("disallowed", None)) is not None:
        fields["disallowed"] = _split_rules(disallowed)
    fields.pop("allow_dangerously_skip_permissions", None)  # allows only what --permission-mode chooses
    if fields.pop("dangerously_skip_permissions", False):
        fields["permission_mode"] = "yolo"
    for field in ("system_prompt", "append_system_prompt"):
        if path := fields.pop(f"{field}_file", ""):
            try:
                with open(path, encoding="utf-8-sig") as file:
                    fields[field] = file.read()
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or error
                raise UsageError(f"--{field.replace('_', '-')}-file: {path!r} can't be read: {why}") from None
    if (session_id := fields.get("session_id")) is not None:
        import uuid  # imported here: only with the option

        try:
            fields["session_id"] = str(uuid.UUID(session_id))
        except ValueError:
            raise UsageError(f"--session-id needs a UUID, found {session_id[:60]!r}") from None


def _split_rules(text: str) -> list[str]:
    """Split rules at commas, but not inside their brackets."""
    rules, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth <= 0:
            rules.append("")
        else:
            rules[-1] += sign
    return [rule.strip() for rule in rules if rule.strip()]


def _read(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Split the words into the fields that options set, and the rest: words of the prompt and unknown
    options."""
    import argparse  # imported here: a start without options does not need it

    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, exit_on_error=False, argument_default=argparse.SUPPRESS
    )
    parser.add_argument(_NAMED, dest="worktree")
    for names, value, _takers, _help in OPTIONS:
        strings = names.split()
        action = "append" if value in _REPEATED else "store" if value.isalpha() else "store_true"
        parser.add_argument(*strings, action=action, dest=_FIELDS.get(strings[-1]))
    try:
        namespace, rest = parser.parse_known_args([_mark(word) for word in words])
    except argparse.ArgumentError as error:
        raise UsageError(_reword_error(error.argument_name or "", error.message, words)) from None
    return vars(namespace), [word.removeprefix(_PROMPT) for word in rest]


_NAMED = "--worktree-name"
"""The option behind `--worktree=NAME`. `--worktree` itself takes no value, or it would swallow a word of the
prompt."""
_PROMPT = " "
"""Put before a prompt such as "-m fails", which argparse would take for -m and its value."""


def _mark(word: str) -> str:
    if word.startswith("--worktree="):
        return word.replace("--worktree", _NAMED, 1)
    return _PROMPT + word if word.startswith("-") and " " in word.partition("=")[0] else word


def _reword_error(names: str, message: str, words: Sequence[str]) -> str:
    """Return argparse's message in buddy's words, with the option as it was typed."""
    typed = {word.partition("=")[0] for word in words}
    name = next((name for name in names.split("/") if name in typed), names.partition("/")[0])
    if message.startswith("ignored explicit argument"):
        return f"{name} takes no value, found {message.removeprefix('ignored explicit argument ')}"
    return f"{name} needs a value"


def _check_values(fields: dict[str, Any]) -> None:
    """Raise `UsageError` for an invalid value; convert numbers and the mode."""
    for field, choices in CHOICES.items():
        if (value := fields.get(field, choices[0])) not in choices:
            raise UsageError(f"--{field.replace('_', '-')} is one of {', '.join(choices)}; found {value!r}")
    if (mode := fields.get("permission_mode")) is not None:
        fields["permission_mode"] = _mode(mode)
    if (turns := fields.get("max_turns")) is not None:
        fields["max_turns"] = whole_number(turns)
        if not fields["max_turns"]:
            raise UsageError(f"--max-turns needs a whole number from 1, found {turns[:40]!r}")
    if (port := fields.get("port")) is not None:
        fields["port"] = whole_number(port)
        if fields["port"] is None or not 0 < fields["port"] < 65_536:
            raise UsageError(f"--port needs a number from 1 to 65535, found {port[:40]!r}")
    if (tries := fields.get("variants")) is not None:
        fields["variants"] = _variants(tries)
    if (dollars := fields.get("max_cost")) is not None:
        fields["max_cost"] = _money(dollars)
    if "worktree" in fields:
        if not fields["worktree"]:
            raise UsageError("--worktree= needs a name; leave out the = to get a generated name")
        fields["in_worktree"] = True


def _check_together(fields: dict[str, Any], command: str, words: Sequence[str]) -> None:
    """Raise `UsageError` for options and words that don't go together; resolve --json."""
    row = COMMANDS.get(command)
    if words and row is not None and not row.words:
        import shlex  # imported here: only needed for the error

        raise UsageError(
            f"buddy {command} takes no words. As a prompt: buddy -- {command} {shlex.join(words)}"
        )
    if "print" in fields and row is not None and command not in _PRINTING:
        import shlex  # imported here: only needed for the error

        raise UsageError(f"buddy {command} has no -p. As a prompt: buddy -p {shlex.join([command, *words])}")
    json = row.json if row is not None else "run"
    if "json" in fields and json == "none":
        raise UsageError(f"buddy {command} has no --json; exec, sessions, permissions and doctor have")
    if "json" in fields and json == "run" and fields.setdefault("output_format", "json") != "json":
        raise UsageError(f"--json and --output-format {fields['output_format']} exclude each other")
    if "include_partial_messages" in fields and fields.get("output_format") != "stream-json":
        raise UsageError("--include-partial-messages goes with --output-format stream-json")
    if fields.get("input_format") == "stream-json" and (
        words or fields.get("output_format") != "stream-json" or "output" in fields
    ):
        raise UsageError(
            "--input-format stream-json takes its prompts from stdin and goes with "
            "--output-format stream-json, without -o"
        )
    if fields.get("permission_prompt_tool", "stdio") != "stdio" or (
        "permission_prompt_tool" in fields and fields.get("input_format") != "stream-json"
    ):
        raise UsageError(
            "--permission-prompt-tool is stdio, with --input-format stream-json; found "
            f"{fields['permission_prompt_tool'][:60]!r}. A tool of an MCP server can't answer"
        )
    if "session_id" in fields and fields.keys() & {"resume", "resume_last"}:
        raise UsageError("--session-id is for new sessions; a resumed session or its copy has its own id")
    if "variants" in fields:
        _check_variants(fields, command)
    if command != "mcp" and (strange := [name for name in _OF_MCP if name in fields]):
        raise UsageError(f"--{strange[0]} goes with buddy mcp add")
    if command != "serve" and fields.keys() & {"port", "socket"}:
        raise UsageError(f"--{'port' if 'port' in fields else 'socket'} goes with buddy serve")
    if {"port", "socket"} <= fields.keys():
        raise UsageError("--port and --socket exclude each other")
    if "in_worktree" in fields and (command == "resume" or fields.keys() & {"resume", "resume_last"}):
        raise UsageError("--worktree is for new sessions; a resumed session stays where it was")
    if "target" in fields and command == "acp":
        raise UsageError("--target is not for acp: an editor shows and follows the files of this machine")
    if "carry" in fields and "in_worktree" not in fields:
        raise UsageError("--carry goes with --worktree: it copies uncommitted changes into it")


def _variants(value: str) -> list[str]:
    """Return a model for each variant, "" for the usual one. Raises `UsageError`."""
    from buddy.tasks.variants import FEWEST, MOST  # only with the option

    count = whole_number(value)
    names = [""] * min(count, MOST + 1) if count is not None else value.split(",")
    if not FEWEST <= len(names) <= MOST or (count is None and not all(names)):
        raise UsageError(
            f"--variants needs a number from {FEWEST} to {MOST}, or as many models (fast,opus); "
            f"found {value[:60]!r}"
        )
    return names


def _check_variants(fields: dict[str, Any], command: str) -> None:
    """Raise `UsageError` for options that don't go together with --variants."""
    if command != "exec" and "print" not in fields:
        raise UsageError("--variants goes with buddy exec; inside buddy it is /try 3 PROMPT")
    if (name := fields.get("output_format", "text")) not in ("text", "json", "stream-json"):
        raise UsageError(
            f"--variants writes --output-format text, json or stream-json: records of {name} have no place "
            "for the number of a variant"
        )
    if fields.get("input_format") == "stream-json":
        raise UsageError(
            "--variants needs one prompt: --input-format stream-json is a conversation with one task"
        )
    reasons = {
        "in_worktree": "--worktree: every variant has a worktree of its own",
        "ephemeral": "--ephemeral: a variant is picked in the saved session",
        "json_schema": "--json-schema, which is for one answer",
    }
    for field, reason in reasons.items():
        if field in fields:
            raise UsageError(f"--variants does not go with {reason}")
    if "model" in fields and any(fields["variants"]):
        raise UsageError("--variants names the models already; leave out --model, or give a number")


def take_reference(options: Options) -> Options:
    """For `buddy resume` and `buddy serve`, take the first word as the session unless an option names it; the
    rest is the prompt of `resume`. Other commands stay as they are. Raises `UsageError`."""
    if options.command == "serve" and options.words:
        first, *more = options.words
        if more or options.reference:
            raise UsageError(f"buddy serve takes one session, found {' '.join(options.words)[:60]!r}")
        return msgspec.structs.replace(options, resume=first, words=())
    if options.command != "resume" or options.resume or options.resume_last:
        return options
    reference = options.words[0] if options.words else "last"
    return msgspec.structs.replace(options, resume=reference, words=options.words[1:])


def _mode(value: str) -> str:
    """Return the mode's canonical name: code that compares modes knows only these."""
    from buddy.safety.policy.decide import CLAUDE_MODES, MODES, mode_by_name  # only needed with the option

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
    import shlex  # imported here: only needed for the error

    return (
        f"buddy {words[0]} is not part of this version; `buddy --help` lists what is. "
        f"To send it as a prompt: buddy exec -- {shlex.join(words)}"
    )


def _mistaken(words: Sequence[str]) -> str:
    if " " in words[0] or (len(words) > 3 and not any(_shares_letters(words[0], name) for name in COMMANDS)):
        return ""
    from buddy.cli.mistaken import (
        mistaken_command,  # 1 ms, only for short prompts and words like a subcommand
    )

    return mistaken_command(words, COMMANDS)


def _shares_letters(word: str, name: str) -> bool:
    """Tell whether a word shares enough letters with a name to be similar to it."""
    common = sum(min(word.count(letter), name.count(letter)) for letter in set(name))
    return 2 * common >= 0.8 * (len(word) + len(name))


def _unknown(word: str) -> str:
    import difflib  # imported here: 1 ms, only needed for the error

    from buddy.cli.other_assistants import refusal  # only needed for the error

    if refused := refusal(word):
        return refused
    name = word.partition("=")[0]
    known = [name for names, *_ in OPTIONS for name in names.split()]
    # An option that contains the word comes before one that only looks like it:
    # --format is --output-format, not --fork.
    near = [option for option in known if name[2:] in option[2:].split("-")] if len(name) > 4 else []
    near = near or difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else "; buddy --help lists them"
    return f"unknown option {word!r}{hint}"
