"""The README says what is true, and is short enough for a package page."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_RU_5_23_the_readme_fits_a_package_page() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 8_000


def test_every_subcommand_it_names_exists() -> None:
    from buddy.cli.arguments import COMMANDS

    text = (ROOT / "README.md").read_text()
    named = {word for word in COMMANDS if f"buddy {word}" in text}
    assert {"exec", "resume", "demo", "init", "login", "doctor", "permissions"} <= named


def test_RU_B3_the_readme_names_every_exit_code() -> None:
    from buddy.cli.main import CLOSED_PIPE
    from buddy.headless import exit_codes

    (line,) = [
        line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("Exit codes:")
    ]
    named = {int(word.split()[0]) for word in line.removeprefix("Exit codes:").split("·")}
    codes = {value for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)}
    assert named == codes
    assert CLOSED_PIPE in codes


def test_RU_A6_the_readme_says_what_is_not_there_and_where_files_lie() -> None:
    text = (ROOT / "README.md").read_text()
    for word in (
        "MCP",
        "skills",
        "hooks",
        "sandbox",
        "pipx",
        "uv tool",
        "400 MB",
        "uninstall",
        "ANTHROPIC_API_KEY",
    ):
        assert word in text, word
