"""Mutation testing of the policy and the analyser: small faults, each of which some test must see.

    python -m tests.bench.mutation [COUNT] [SEED] [MODULE …]

A copy of the tree is mutated, one fault at a time, and the safety tests run until the first failure. What
survives is listed: either a test is missing or the code does not matter.
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
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAFETY = "buddy/safety"
MODULES = (
    "policy",
    "policy_table",
    "policy_state",
    "policy_answers",
    "rules",
    "rules_match",
    "rules_save",
    "rules_load",
    "grants",
)
TESTS = (
    "tests/safety/test_policy.py",
    "tests/safety/test_rules.py",
    "tests/safety/test_shell_lists.py",
    "tests/safety/test_shell_cases.py",
    "tests/safety/test_shell_programs.py",
    "tests/safety/test_shell_families.py",
    "tests/safety/test_shell_git.py",
    "tests/safety/test_shell_effects.py",
    "tests/safety/test_shell_parsers.py",
    "tests/safety/test_shell_picks.py",
    "tests/safety/test_shell_compound.py",
    "tests/safety/test_shell_lists_review.py",
)
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


def all_mutants(names: list[str]) -> list[tuple[str, int, str, str]]:
    paths = [f"{SAFETY}/{name}.py" for name in MODULES]
    paths += sorted(str(path.relative_to(ROOT)) for path in (ROOT / SAFETY / "shell").glob("*.py"))
    chosen = [path for path in paths if not names or any(name in path for name in names)]
    return [(path, *mutant) for path in chosen for mutant in mutants((ROOT / path).read_text())]


def killed(copy_root: Path, path: str, source: str) -> bool:
    """Whether some test fails with this source in place."""
    target = copy_root / path
    target.write_text(source)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--timeout=60", *TESTS]
    try:
        result = subprocess.run(command, cwd=copy_root, capture_output=True, timeout=240, check=False)
    except subprocess.TimeoutExpired:
        return True
    finally:
        target.write_text((ROOT / path).read_text())
    return result.returncode != 0


def main(arguments: list[str]) -> int:
    count, seed, names = int((arguments or ["100"])[0]), int((arguments[1:] or ["1"])[0]), arguments[2:]
    found = all_mutants(names)
    chosen = random.Random(seed).sample(found, min(count, len(found)))
    survivors: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        copy_root = Path(folder) / "copy"
        copy_root.mkdir()
        for name in ("buddy", "tests"):
            shutil.copytree(ROOT / name, copy_root / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy_root)
        for path, line, name, source in chosen:
            if not killed(copy_root, path, source):
                survivors.append(
                    f"{path}:{line} {name}: {(ROOT / path).read_text().splitlines()[line - 1].strip()}"
                )
                print("survived", survivors[-1], flush=True)
    print(f"{len(chosen)} of {len(found)} mutants tried, {len(chosen) - len(survivors)} killed")
    return 0 if len(survivors) <= len(chosen) // 5 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
