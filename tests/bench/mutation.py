"""Mutation testing of what keeps buddy safe: small faults, each of which some test must see.

    python -m tests.bench.mutation [COUNT] [SEED] [AREA or MODULE …]

COUNT mutants are drawn from each area (policy, analyser, paths, sanitiser, network, secrets). A copy of the
tree is mutated, one fault at a time, and its tests run until the first failure: the unit tests of the module
and of its neighbours, then those of `tests/security` the area names. What survives is listed: either a test
is missing or the code does not matter. Without a fault all of them must pass.

Survivors that change nothing anybody could see, and why:

- `frozen=True` of a record, a default that every caller gives (policy, protected): a reader's promise.
- The length of a quotation in an error ([:80], [:200]: paths, descriptors, url_guard).
- sanitise `_CACHED`, `code < _CACHED`: the size of a cache. `text.isascii() or …`, `_is_plain(text) and …`,
  `sign < "\\u0300"`: short ways to what the long way says too. `first < 0`: the long way cuts and joins the
  text at its last character.
- descriptors `getattr(os, "O_DIRECTORY", 0)` and the like: the default is for systems without the name.
  The length of the random part of a temporary name; the mode given where a folder is opened, not made.
- protected `tail.startswith(name) and …`, paths `len(name) > MAX_NAME_BYTES // 4 and …`: a quick look before
  the exact one. paths `given.startswith(known + "/")`, the first line of sanitise `visible`: short ways.
- archives `set(before) <= _TAR_LETTERS`: letters before f never hold an f, so they are never all of the set.
"""

from __future__ import annotations

import ast
import copy
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAFETY = "buddy/safety"


@dataclass(frozen=True)
class Area:
    """Modules that belong together (names below `buddy/safety`, or patterns), and the files of
    `tests/security` that watch them beside the unit tests of the mutated module."""

    modules: tuple[str, ...]
    security: tuple[str, ...]


AREAS = {
    "policy": Area(
        ("policy/*",), ("edges", "shell_cases", "grants_mean_what_was_shown", "shell_lists_review")
    ),
    "analyser": Area(
        ("shell/*", "shell/programs/*"),
        ("shell_cases", "shell_families", "shell_real_use", "shell_lists_review", "shell_everyday", "edges"),
    ),
    "paths": Area(("paths", "protected", "git_repository"), ("edges", "guarded_places", "link_races")),
    "sanitiser": Area(("sanitise",), ("edges", "hostile_strings")),
    "network": Area(("url_guard",), ("edges",)),
    "secrets": Area(("secrets/*",), ("secrets_published", "search_secrets")),
}
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Every single fault: its line, what it is, and the source with it."""
    tree = ast.parse(source)
    for position, node in enumerate(ast.walk(tree)):
        for name in _faults(node):
            changed = copy.deepcopy(tree)
            target = next(item for index, item in enumerate(ast.walk(changed)) if index == position)
            _apply(target, name)
            yield getattr(node, "lineno", 0), name, ast.unparse(ast.fix_missing_locations(changed))


def _faults(node: ast.AST) -> list[str]:
    match node:
        case ast.Compare() if type(node.ops[0]) in _COMPARISONS:
            return ["compare"]
        case ast.BoolOp():
            return ["and-or", "drop first", "drop last"]
        case ast.UnaryOp(op=ast.Not()):
            return ["drop not"]
        case ast.Constant(value=bool()):
            return ["flip"]
        case ast.Constant(value=int()):
            return ["plus one"]
        case ast.If():
            return ["always", "never"]
        case _:
            return []


def _apply(node: ast.AST, name: str) -> None:
    match node:
        case ast.Compare():
            node.ops[0] = _COMPARISONS[type(node.ops[0])]()
        case ast.BoolOp() if name == "and-or":
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.BoolOp():
            del node.values[0 if name == "drop first" else -1]
        case ast.UnaryOp():
            node.operand = ast.UnaryOp(op=ast.Not(), operand=node.operand)
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=int(value)):
            node.value = value + 1
        case ast.If():
            node.test = ast.Constant(name == "always")
        case _:
            raise AssertionError(name)


def mutants_of(area: Area, names: list[str]) -> list[tuple[str, int, str, str]]:
    """Every mutant of the area's modules; of those named only, when some are."""
    paths = sorted({path for pattern in area.modules for path in (ROOT / SAFETY).glob(f"{pattern}.py")})
    chosen = [str(path.relative_to(ROOT)) for path in paths]
    return [
        (path, *mutant)
        for path in chosen
        if not names or any(name in path for name in names)
        for mutant in mutants((ROOT / path).read_text())
    ]


def tests_of(path: str, security: tuple[str, ...]) -> list[str]:
    """The unit tests of a module, by its name, those of its neighbours, and files of `tests/security`."""
    room = "tests/unit" / Path(path).parent.relative_to("buddy")
    own = sorted(str(file) for file in (ROOT / room).glob(f"test_{Path(path).stem}*.py"))
    others = sorted(str(file) for file in (ROOT / room).glob("test_*.py") if str(file) not in own)
    named = [str(ROOT / f"tests/security/test_{name}.py") for name in security]
    missing = [file for file in named if not Path(file).exists()]
    if missing:
        raise SystemExit(f"AREAS names tests that are not there: {', '.join(missing)}")
    return [str(Path(file).relative_to(ROOT)) for file in (*own, *others, *named)]


def killed(copy_root: Path, path: str, source: str, tests: list[str]) -> bool:
    """Tell whether some test fails with this source in place."""
    target = copy_root / path
    target.write_text(source)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--timeout=60", *tests]
    try:
        result = subprocess.run(command, cwd=copy_root, capture_output=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return True
    finally:
        target.write_text((ROOT / path).read_text())
    if result.returncode not in (0, 1, 2):  # 2: the module cannot even be imported
        raise SystemExit(f"pytest ran no tests for {path}:\n{result.stdout.decode()}{result.stderr.decode()}")
    return result.returncode != 0


def tried(copy_root: Path, name: str, chosen: list[tuple[str, int, str, str]]) -> int:
    """Return the number of killed mutants of an area; print the others."""
    survived = 0
    for path in sorted({path for path, *_ in chosen}):
        if killed(copy_root, path, (ROOT / path).read_text(), tests_of(path, AREAS[name].security)):
            raise SystemExit(f"the tests of {path} fail without a fault")
    for path, line, fault, source in chosen:
        if not killed(copy_root, path, source, tests_of(path, AREAS[name].security)):
            survived += 1
            text = (ROOT / path).read_text().splitlines()[line - 1].strip()
            print(f"survived {path}:{line} {fault}: {text}", flush=True)
    return len(chosen) - survived


def main(arguments: list[str]) -> int:
    count, seed, words = int((arguments or ["30"])[0]), int((arguments[1:] or ["1"])[0]), arguments[2:]
    names = [word for word in words if word not in AREAS]
    weakest = 1.0
    with tempfile.TemporaryDirectory() as folder:
        copy_root = Path(folder) / "copy"
        copy_root.mkdir()
        for name in ("buddy", "tests", "templates"):
            shutil.copytree(ROOT / name, copy_root / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "buddy.toml.example", "README.md"):
            shutil.copy(ROOT / name, copy_root)
        for name in [word for word in words if word in AREAS] or list(AREAS):
            found = mutants_of(AREAS[name], names)
            chosen = random.Random(seed).sample(found, min(count, len(found)))
            good = tried(copy_root, name, chosen)
            print(f"{name}: {len(chosen)} of {len(found)} mutants tried, {good} killed", flush=True)
            weakest = min(weakest, good / max(1, len(chosen)))
    return 0 if weakest >= 0.8 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
