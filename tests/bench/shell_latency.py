"""The duration of the analysis: p50, p99 and the worst of many generated command lines.

    python -m tests.bench.shell_latency [COUNT] [SEED]

Three kinds in turn: fragments as the fuzz test makes them, longer lines of real commands, and inputs made to
be slow.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.shell_fuzz import SEPARATORS, WORDS, made
from tests.support.shell_project import ShellProject, lines_of, shell_project
from tests.unit.safety.shell.test_analysis_lists import DANGEROUS, EVERYDAY

SLOW = (
    *(
        "a=( ",
        "a=(",
        "$(",
        "`",
        "(",
        "[[ ",
        "{ ",
        "<<a ",
        "<<'a'\n",
        '"',
        "'",
        "\\\n",
        "| ",
        "case x in ",
        "a b ",
    ),
    *(
        "* ",
        "{a,b}",
        "~/",
        "$HOME",
        "[a]",
        "if ",
        "rm -rf / ",
        "sudo ",
        "sh -c 'rm x' ",
        "'a'",
        "\\a",
        "&& ",
        ";",
    ),
    *("2>&1 ", "[ a ", "! ", "xargs ", "find . ", "$'\\t'", "é", "x=1 ", "-a ", "a/b/c/../", "\n"),
)


def lines(count: int, seed: int) -> list[str]:
    """The command lines, the same for the same seed."""
    random_ = random.Random(seed)
    real = [line.replace("⏎", "\n") for line in (*lines_of(EVERYDAY), *lines_of(DANGEROUS))]
    found: list[str] = []
    while len(found) < count:
        kind = len(found) % 3
        if kind == 0:
            pieces = random_.randint(1, 300)
            found.append("".join(random_.choice(WORDS) + random_.choice(SEPARATORS) for _ in range(pieces)))
        elif kind == 1:
            joint = random_.choice([" | ", "; ", " && ", "\n"])
            found.append(joint.join(random_.choices(real, k=random_.randint(1, 12))))
        elif len(found) % 30 == 2:
            found.append((random_.choice(SLOW) * 4000)[: random_.choice([100, 1000, 4000, 4000, 20_000])])
        else:
            found.append("".join(random_.choices(SLOW, k=random_.randint(1, 400))) + made(random_))
    return found


def measure(project: ShellProject, commands: list[str]) -> list[tuple[float, float, str]]:
    """Milliseconds of processor time and by the wall clock of each: other programs must not count."""
    times: list[tuple[float, float, str]] = []
    for command in commands:
        began, began_wall = time.thread_time(), time.perf_counter()
        project.analyse(command)
        took, took_wall = time.thread_time() - began, time.perf_counter() - began_wall
        times.append((took * 1000, took_wall * 1000, command))
    return times


def summary(milliseconds: list[float]) -> str:
    """The middle, the hundredth and the longest of some times."""
    ordered = sorted(milliseconds)
    p50, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, worst {ordered[-1]:.1f} ms"


if __name__ == "__main__":
    arguments = [*sys.argv[1:], *["100000", "1"][len(sys.argv) - 1 :]]
    with tempfile.TemporaryDirectory() as folder:
        session_ = shell_project(Path(folder))
        session_.git("init", "-q", ".")
        result = measure(session_, lines(int(arguments[0]), int(arguments[1])))
    print(f"{len(result)} command lines")
    print(f"  processor time: {summary([one[0] for one in result])}")
    print(f"  wall clock:     {summary([one[1] for one in result])}")
    for cpu, wall, command in sorted(result)[:-6:-1]:
        print(f"  {cpu:.1f} ms ({wall:.1f} by the clock): {len(command)} characters, {command[:80]!r}")
