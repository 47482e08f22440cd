"""START HERE: `buddy` and `python -m buddy`. What needs no imports is answered without any."""

from __future__ import annotations

import sys


def main() -> int:
    """The program. Returns the exit code."""
    if sys.argv[1:] in (["--version"], ["-V"], ["version"]):
        from buddy import __version__

        sys.stdout.write(f"buddy {__version__}\n")
        return 0
    from buddy.cli.main import run  # after --version: it costs 20 ms and more

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
