"""Everything that must hold before a change lands: formatting, lint, types, layers, tests. `python
tests/check.py`. The part `house` is the tests that read the source and the manual: they name most steps that
were forgotten, in half a minute; `tests` contains them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
CHECKS = {
    "format": [str(BIN / "ruff"), "format", "--check", "--quiet", "."],
    "lint": [str(BIN / "ruff"), "check", "--quiet", "."],
    "layers": [str(BIN / "lint-imports")],
    "types": [str(BIN / "pyright"), "--pythonpath", sys.executable],
    "house": [
        *(sys.executable, "-m", "pytest", "-q", "-n", "0", "--tb", "line"),
        *("tests/test_architecture.py", "tests/test_help_pages.py", "tests/test_readme.py"),
    ],
    "tests": [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile"],
}


def main() -> int:
    """Run every check, or the ones named on the command line."""
    wanted = sys.argv[1:] or [name for name in CHECKS if name != "house"]
    unknown = [name for name in wanted if name not in CHECKS]
    if unknown:
        print(f"expected names out of: {' '.join(CHECKS)}; found: {' '.join(unknown)}", file=sys.stderr)
        return 2
    failed: list[str] = []
    for name in wanted:
        print(f"== {name}", flush=True)
        started = time.monotonic()
        code = subprocess.run(CHECKS[name], cwd=ROOT, check=False).returncode
        print(
            f"== {name}: {'ok' if code == 0 else 'FAILED'} in {time.monotonic() - started:.0f} s", flush=True
        )
        if code:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
