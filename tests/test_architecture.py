"""Rules that import-linter can't check: rooms and layers, borders, and the imports of a start."""

from __future__ import annotations

import ast
import gc
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from buddy.agent.events import AgentUiEvent
from buddy.cli.arguments import COMMANDS
from buddy.tools.builtin import BUILTIN_TOOLS
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "buddy"
MODULES = sorted(PACKAGE.rglob("*.py"))
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
NOT_A_ROOM = ("utils", "helpers", "common", "base", "core", "misc", "manager", "handler")
HEAVY = (
    "litellm",
    "pydantic",
    "mcp",
    "prompt_toolkit",
    "rich",
    "jinja2",
    "markdown_it",
    "openai",
    "starlette",
    "uvicorn",
)
"""What `buddy exec` on the direct lane does without: each costs 10 ms to 2 s to import."""

ONLY_LATE = ("pathlib", "difflib", "shutil", "tempfile", "tomli_w", "secrets")
"""What `buddy exec` does without until its first request: 1 to 3 ms each. Some come with httpcore2 then."""

OTHER_LANES = {
    "chat": (
        "buddy.llm.direct.anthropic",
        "buddy.llm.litellm_lane.provider",
        "buddy.llm.litellm_lane.loader",
    ),
    "anthropic": (
        "buddy.llm.direct.openai",
        "buddy.llm.litellm_lane.provider",
        "buddy.llm.litellm_lane.loader",
    ),
}


def test_the_layers_hold() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    ran = subprocess.run([str(linter)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_every_module_is_in_a_layer() -> None:
    layers = next(one for one in SETTINGS["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    assigned = {room.strip() for layer in layers["layers"] for room in layer.split("|")}
    found = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES}
    assert found - {"__init__", "__main__"} == assigned


def test_a_unit_test_is_named_after_a_module() -> None:
    """`tests/unit/ROOM/test_MODULE.py`, or `test_MODULE_ASPECT.py` where a module has several."""
    unit = ROOT / "tests" / "unit"
    files = sorted(unit.rglob("test_*.py"))
    assert len(files) > 100  # the walk found tests

    def has_module(path: Path) -> bool:
        name = path.stem.removeprefix("test_")
        room = PACKAGE / path.relative_to(unit).parent
        return any(name == one.stem or name.startswith(f"{one.stem}_") for one in room.glob("*.py"))

    assert [str(path.relative_to(ROOT)) for path in files if not has_module(path)] == []


def test_nobody_waits_with_wait_for() -> None:
    """On Python 3.11 `asyncio.wait_for` can swallow a cancellation; `asyncio.timeout` does not."""
    users = {
        str(path.relative_to(ROOT))
        for path in MODULES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "asyncio.wait_for"
    }
    assert users == set()


def test_no_room_has_a_name_that_says_nothing() -> None:
    names = {part.removesuffix(".py") for path in MODULES for part in path.relative_to(ROOT).parts}
    assert names & {*NOT_A_ROOM, *(f"{name}s" for name in NOT_A_ROOM)} == set()


SMOKE_ALARMS = {"file": 600, "class": 300, "function": 60}
"""Lines from which a part is named in the report. Nothing fails: a limit that fails shapes the code."""


def test_report_long_files_classes_and_functions(record_property: Callable[[str, object], None]) -> None:
    """Print the long parts (`pytest -s`, or the report of a run); none of them is an error."""
    sizes = {path: list(_sizes(path)) for path in MODULES}
    assert sum(map(len, sizes.values())) > 10 * len(MODULES)  # the walk found functions
    long = sorted(
        (lines, kind, f"{path.relative_to(ROOT)} {name}".strip())
        for path, parts in sizes.items()
        for kind, name, lines in parts
        if lines > SMOKE_ALARMS[kind]
    )
    for lines, kind, where in reversed(long):
        print(f"{kind} of {lines} lines: {where}")
    record_property("long parts", len(long))


def _sizes(path: Path) -> Iterator[tuple[str, str, int]]:
    """Kind, name and lines of a module and of each class and function in it."""
    yield "file", "", len(path.read_text().splitlines())
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            yield kind, node.name, (node.end_lineno or 0) - node.lineno + 1


def test_no_module_is_imported_through_a_string() -> None:
    """Neither the type checker nor import-linter sees such an import."""
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES}
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert found == []


def test_every_module_says_what_it_is() -> None:
    silent = [str(path) for path in MODULES if not ast.get_docstring(_tree(path))]
    assert silent == []


OPENINGS_THAT_SAY_NOTHING = {"What", "Whether", "How", "Where", "Who", "Which", "That"}


def test_docstrings_open_with_a_noun_or_an_imperative() -> None:
    riddles = [
        f"{path.relative_to(ROOT)}: {text.splitlines()[0]}"
        for path in (*MODULES, *sorted((ROOT / "tests").rglob("*.py")))
        for text in _docstrings(path)
        if text.split(maxsplit=1)[0].rstrip(",:") in OPENINGS_THAT_SAY_NOTHING
    ]
    assert riddles == []


def test_a_class_name_exists_once() -> None:
    defined = [
        (node.name, str(path.relative_to(ROOT)))
        for path in MODULES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.ClassDef)
    ]
    assert len(defined) > 300  # the walk found classes
    counts = Counter(name for name, _ in defined)
    assert [where for where in defined if counts[where[0]] > 1] == []


def _docstrings(path: Path) -> Iterator[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(_tree(path)) if isinstance(node, kinds))
    return filter(None, found)


def test_the_agent_room_knows_nothing_but_the_standard_library_and_msgspec() -> None:
    allowed = {"msgspec", "buddy", *sys.stdlib_module_names}
    forbidden = {"os", "socket", "subprocess", "time", "pathlib", "shutil", "random", "tempfile", "io"}
    for path in (PACKAGE / "agent").glob("*.py"):
        for name in _imported(path):
            assert name.split(".")[0] in allowed - forbidden, f"{path.name} imports {name}"
            assert not name.startswith("buddy.") or name.startswith("buddy.agent"), f"{path.name}: {name}"


def test_no_type_checking_tricks() -> None:
    assert [str(path) for path in MODULES if "TYPE_CHECKING" in path.read_text()] == []


def test_no_match_over_events_has_a_wildcard() -> None:
    """pyright then names each match that a new event needs: the formats, the event hub, the view."""
    found = [
        (str(path.relative_to(PACKAGE)), any(map(_is_wildcard, node.cases)))
        for path in MODULES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Match) and len(_events_in(node)) > 4
    ]
    assert [where for where, is_open in found if is_open] == []
    assert Counter(where for where, _ in found) == {
        "headless/acp/updates.py": 1,
        "headless/serve/running_turn.py": 1,
        "headless/formats.py": 3,
        "headless/stream_format.py": 2,
        "headless/codex_format.py": 1,
        "tasks/event_hub.py": 1,
        "repl/view/view.py": 1,
    }


def _events_in(node: ast.Match) -> set[str]:
    events = {one.__name__ for one in get_args(AgentUiEvent)}
    patterns = (below for case in node.cases for below in ast.walk(case.pattern))
    return events & {
        ast.unparse(one.cls).rpartition(".")[2] for one in patterns if isinstance(one, ast.MatchClass)
    }


def _is_wildcard(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


def test_only_the_room_of_tasks_changes_a_task() -> None:
    """Others ask the board: what it does to a task reaches the journal too."""
    declared = next(
        node
        for node in ast.walk(_tree(PACKAGE / "tasks/task.py"))
        if isinstance(node, ast.ClassDef) and node.name == "Task"
    )
    fields = {name for name in map(_changed_attribute, ast.walk(declared)) if name}
    fields -= {"task_id"}  # other records have one too
    assert {"background", "history", "state", "not_run"} <= fields
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}"
        for path in MODULES
        if path.parent.name != "tasks" and any(name.startswith("buddy.tasks") for name in _imported(path))
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute)
        and _changed_attribute(node) in fields
        and ast.unparse(node.value) != "self"
    ]
    assert found == []


def _changed_attribute(node: ast.AST) -> str:
    """The attribute that is assigned, added to or deleted here, "" where none is."""
    return node.attr if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) else ""


def test_every_tool_of_the_room_is_a_builtin_tool() -> None:
    decorated = {
        node.name: str(path.relative_to(PACKAGE))
        for path in MODULES
        if path.is_relative_to(PACKAGE / "tools")
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)
        and any(ast.unparse(one).startswith("tool(") for one in node.decorator_list)
    }
    listed = next(
        node.value
        for node in _tree(PACKAGE / "tools/builtin.py").body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "BUILTIN_TOOLS"
    )
    assert isinstance(listed, ast.Tuple)
    missing = decorated.keys() - {ast.unparse(one) for one in listed.elts}
    assert len(decorated) > 30  # the walk found tools
    assert not missing, "add to BUILTIN_TOOLS in tools/builtin.py: " + ", ".join(
        f"{name} of {decorated[name]}" for name in sorted(missing)
    )


KNOWS_TOOL_NAMES = {
    "extend/tool_names.py": "the names Claude Code has for them, which its files use",
    "app/run_settings.py": "a tool that two of Claude's names mean, and one that files bring",
    "cli/other_assistants.py": "a setting of Codex with the name of a tool",
    "headless/codex_format.py": "the kinds of items that Codex has for some tools",
    "extend/imports/programs.py": "the names Gemini CLI has for its tools",
    "extend/imports/codex_settings.py": "a setting of Codex with the name of a tool",
    "extend/imports/codex_rollout.py": "the calls of other programs under buddy's names",
    "sessions/loading.py": "the names of calls in the journal",
    "safety/policy/rules_loading.py": "the words of a rules file",
    "safety/policy/try_command.py": "facts of a command that no model called",
    "repl/view/blocks.py": "the words for lookups, which the view has without the tools",
    "repl/view/live.py": "the words for calls that still arrive, as above",
}
"""Modules besides the tools' own that name a tool by string, and why. Behaviour is a field of `Tool`."""


def test_a_tool_is_named_by_string_only_where_it_is_declared() -> None:
    names = {tool.name for tool in BUILTIN_TOOLS if "_" in tool.name} | {"delegate"}
    found = {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if not path.is_relative_to(PACKAGE / "tools")
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert found == set(KNOWS_TOOL_NAMES), "make it a field of Tool, or say here why it can't be one"


RUN_BY_WORK = {"exec", "resume"}


def test_every_subcommand_has_a_branch() -> None:
    dispatch = next(
        node
        for node in ast.walk(_tree(PACKAGE / "cli/main.py"))
        if isinstance(node, ast.FunctionDef) and node.name == "_dispatch"
    )
    branches = {
        node.value.value
        for node in ast.walk(dispatch)
        if isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant)
    }
    missing, unknown = COMMANDS.keys() - RUN_BY_WORK - branches, branches - COMMANDS.keys()
    assert not missing, f"give each a branch in _dispatch of cli/main.py: {sorted(missing)}"
    assert not unknown, f"give each a row in COMMANDS of cli/arguments.py: {sorted(unknown)}"


def test_every_setting_is_read() -> None:
    tree = _tree(PACKAGE / "config/settings.py")
    records = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    fields = {
        f"{record.name}.{ast.unparse(line.target)}"
        for record in records
        for line in record.body
        if isinstance(line, ast.AnnAssign)
    }
    read = {
        node.attr
        for path in MODULES
        if path != PACKAGE / "config/settings.py"
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    assert len(fields) > 60  # the walk found settings
    unread = sorted(field for field in fields if field.partition(".")[2] not in read)
    assert not unread, f"pass each to the code it is for, or remove it: {unread}"


BORDERS = {
    "agent/tool_calls.py _execute": "a tool call: whatever a tool raises, only its call ends",
    "agent/loop.py _run": "a turn: its last event names what broke it; raised again",
    "tasks/turn_runner.py TurnRunner._run": "a task: whatever happens in one, only it fails",
    "llm/litellm_lane/provider.py LitellmProvider.stream": "a provider lane: providers raise what they like",
    "llm/litellm_lane/pictures.py LitellmPictures.make": "as above, for pictures",
    "llm/litellm_lane/loader.py LitellmLibrary._fulfil": "a provider lane: its import fails in the caller",
    "llm/litellm_lane/loader.py LitellmLibrary._preload": "as above, for the request that needs it",
    "extend/plugins/isolation.py run_code.run": "an extension: code of the person's own",
    "extend/plugins/isolation.py contain.run_safely": "an extension: a tool of the person's own",
    "headless/permission_requests.py PermissionRequests._ask": "an approval: a dead answerer denies",
    "headless/permission_requests.py PermissionRequests._ask_question": "as above, of a question",
    "headless/schema_check.py find_problem": "a schema: a reference fails in a package of the library",
    "extend/hooks/dispatcher.py Hooks._run": "a hook: callbacks are code of the driving program",
    "extend/mcp/library.py _run": "a package: its import fails in whoever awaits it",
    "extend/mcp/client.py connect": "an MCP server: the protocol library raises what a server makes it raise",
    "extend/mcp/client.py _asked": "as above: it costs the one call",
    "extend/mcp/server.py McpServer._connected": "as above: it ends this server's connection",
    "extend/mcp/server.py McpServer._watch": "as above: it costs the news of changes",
    "llm/keys.py Keyring.read": "an extension: backends of the keyring raise what they like",
    "llm/keys.py Keyring.remove": "an extension: as above",
    "llm/keys.py Keyring.save": "an extension: as above",
    "workspace/sandbox/own_thread.py _Call.run": "a thread: raised again in the one that waits for it",
    "tools/web.py DdgsSearch._blocking": "an extension: the package's errors share no base",
    "cli/interactive.py _work_with_sessions": "the front end's top level",
    "cli/permissions.py judge_line": "a front end: one answer of many, and asking is safe",
}
"""Where anything at all may be caught, and why. Clean-up needs none: `on_failure`, `finally`, `with`."""


def test_only_the_borders_catch_everything() -> None:
    found = [f"{path.relative_to(PACKAGE)} {where}" for path in MODULES for where in _broad(path)]
    assert sorted(found) == sorted(BORDERS)


def test_tests_are_skipped_only_through_the_named_capabilities() -> None:
    """`tests/capabilities.py` is the one list; what is skipped is counted at the end of a run."""
    names = {"skip", "skipif", "importorskip", "xfail", "skipIf", "skipUnless"}
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute) and node.attr in names
    }
    assert found == {"tests/capabilities.py"}


def _broad(path: Path) -> Iterator[str]:
    """The functions of a module that catch `Exception`, `BaseException` or everything."""

    def look(node: ast.AST, where: tuple[str, ...]) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            where = (*where, node.name)
        if isinstance(node, ast.Try | ast.TryStar) and any(map(_catches_everything, node.handlers)):
            yield ".".join(where)
        for child in ast.iter_child_nodes(node):
            yield from look(child, where)

    return look(_tree(path), ())


def _catches_everything(handler: ast.ExceptHandler) -> bool:
    names = {
        node.id for node in ast.walk(handler.type or ast.Name("BaseException")) if isinstance(node, ast.Name)
    }
    return bool(names & {"Exception", "BaseException"})


def test_what_a_check_is_told_to_pass_over_names_its_code_and_its_reason() -> None:
    told = re.compile(r"# (?:noqa|type:|pyright:)")
    complete = re.compile(r"# (?:noqa: [A-Z0-9, ]+|pyright: ignore\[\w+\]) - \w")
    lines = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in MODULES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if told.search(line) and not complete.search(line)
    ]
    assert lines == []


def test_the_names_that_tests_import_exist() -> None:
    """Pyright reads `buddy/` alone, and a file of tests that can't be imported is easily overlooked."""
    missing = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.module} has no {name.name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("buddy", "tests")
        for name in node.names
        if name.name not in _names_of(node.module or "")
    ]
    assert missing == []


@cache
def _names_of(module: str) -> frozenset[str]:
    """Return the names that a module binds anywhere, and those of the modules in a package."""
    place = ROOT.joinpath(*module.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    names = {one.stem for one in place.iterdir()} if place.is_dir() else set[str]()
    for node in ast.walk(_tree(path)) if path.exists() else ():
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=alias):
                names.add(alias or name.split(".")[0])
            case _:
                pass
    return frozenset(names)


def test_test_folders_are_no_packages() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


# --- what a start imports ---------------------------------------------------------------------------------


def loaded(code: str) -> set[str]:
    """The modules a fresh interpreter has after some code."""
    script = f"{code}\nimport json, sys\nsys.stderr.write(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(ran.stderr.splitlines()[-1]))


def loaded_by(*arguments: str) -> set[str]:
    """The modules the program has when it leaves."""
    script = (
        "import atexit, json, sys\n"
        "atexit.register(lambda: sys.stderr.write(json.dumps(sorted(sys.modules))))\n"
        f"sys.argv = ['buddy', *{list(arguments)!r}]\n"
        "from buddy.__main__ import main\nmain()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(ran.stderr.splitlines()[-1]))


def test_version_imports_nothing() -> None:
    before = loaded("import atexit")
    assert loaded_by("--version") - before <= {"__future__", "gc", "buddy", "buddy.__main__"}


def test_help_imports_no_model_and_no_terminal() -> None:
    found = loaded_by("--help")
    assert [name for name in (*HEAVY, "httpx", "asyncio") if name in found] == []


@pytest.mark.parametrize("front", ["cli.main", "cli.interactive", "cli.session_loop", "cli.headless"])
def test_only_serving_a_page_imports_its_server(front: str) -> None:
    found = loaded(f"import buddy.{front}")
    assert [name for name in found if name.startswith(("starlette", "uvicorn", "buddy.headless.serve"))] == []


@pytest.mark.parametrize("lane", ["chat", "anthropic"])
async def test_exec_on_the_direct_lane_imports_only_what_it_needs(tmp_path: Path, lane: str) -> None:
    first, found = await _loaded_by_exec(tmp_path, lane, call("read_file", path="a.txt"))
    assert [name for name in (*ONLY_LATE, "anyio", "h11") if name in first] == []
    assert [name for name in (*HEAVY, *OTHER_LANES[lane]) if name in found] == []
    assert [name for name in found if name.startswith("buddy.repl")] == []


def test_no_regular_expression_is_compiled_while_modules_are_imported() -> None:
    """They cost 20 ms together: `buddy.agent.lazy_regex` compiles them when they are used."""
    script = (
        "import json, re, sys\n"
        "found, compiled = [], re._compiler.compile\n"
        "def watched(text, flags=0):\n"
        "    frame = sys._getframe(1)\n"
        "    while frame.f_globals['__name__'] == 're':\n"
        "        frame = frame.f_back\n"
        "    found.append((frame.f_globals['__name__'], frame.f_lineno))\n"
        "    return compiled(text, flags)\n"
        "re._compiler.compile = watched\n"
        "import buddy.cli.headless, buddy.llm.direct.openai, buddy.llm.direct.anthropic\n"
        "import buddy.cli.interactive, buddy.repl.app, buddy.repl.start\n"
        "print(json.dumps([one for one in found if one[0].startswith('buddy.')]))"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == []


async def test_a_shell_command_loads_nothing_heavy_either(tmp_path: Path) -> None:
    _, found = await _loaded_by_exec(tmp_path, "chat", call("run_shell", command="ls"))
    assert [name for name in HEAVY if name in found] == []


async def _loaded_by_exec(tmp_path: Path, lane: str, made: object) -> tuple[set[str], set[str]]:
    """The modules `buddy exec` has when its first request imports httpcore2, and when it leaves."""
    async with FakeLLM([reply(made), reply("ok")]) as server:
        program = Program(tmp_path, server.url, lane)
        program.files(a__txt="alpha\n")
        first, said = tmp_path / "first.json", tmp_path / "modules.json"
        hook = tmp_path / "hook"
        hook.mkdir()
        (hook / "sitecustomize.py").write_text(
            "import atexit, json, sys\n"
            "class Watch:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name == 'httpcore2':\n"
            f"            open({str(first)!r}, 'w').write(json.dumps(sorted(sys.modules)))\n"
            "sys.meta_path.insert(0, Watch())\n"
            f"atexit.register(lambda: open({str(said)!r}, 'w').write(json.dumps(sorted(sys.modules))))\n"
        )
        program.environment = {"PYTHONPATH": os.pathsep.join([str(hook), str(ROOT)])}
        ran = await program.run("exec", "hi")
    assert (ran.code, ran.out) == (0, "ok\n"), ran.err
    return set(json.loads(first.read_text())), set(json.loads(said.read_text()))


@cache
def _tree(path: Path) -> ast.Module:
    """A module, parsed. Python 3.11 counts the depth of what is built in one number for all threads: where a
    finaliser runs in the middle and lets another thread parse, it raises SystemError. So nothing is collected
    meanwhile."""
    collected = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        if collected:
            gc.enable()


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found
