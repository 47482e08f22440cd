"""Everything that must hold before a change lands: formatting, lint, types, layers, tests. `python
tests/check.py`."""

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
    "tests": [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "loadfile"],
}


def main() -> int:
    """Run every check, the ones named on the command line, or those before the first failure."""
    wanted = sys.argv[1:] or list(CHECKS)
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
