"""The completion scripts offer what the command line accepts, and what they print is quoted for the shell."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from buddy.app.options import Options, UsageError
from buddy.cli.arguments import COMMANDS, OPTIONS
from buddy.cli.completion import completion, fish_script

COMPLETE = """
source {script}
COMP_WORDS=({words}); COMP_CWORD={last}
_shtab_buddy
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def script(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert completion(Options(words=words), {}) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("pl",), {"plugin"}),
        (("completion", ""), {"bash", "zsh", "fish"}),
        (("exec", "--permission-mode", ""), {"plan", "ask", "edit", "auto", "yolo"}),
        (("exec", "--output-f"), {"--output-format"}),
        (("plugin", ""), {"add", "list", "remove"}),
        (("help", "sand"), {"sandbox"}),
        (("--colo",), {"--color"}),
        (("--color", "a"), {"auto", "always"}),
        (("resume", ""), {"first", "second"}),
        (("exec", "-m", "s"), {"second"}),
    ],
)
def test_bash_offers_words_options_and_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], typed: tuple[str, ...], offered: set[str]
) -> None:
    program = tmp_path / "bin" / "buddy"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nprintf 'first\\nsecond\\n'\n")
    program.chmod(0o755)
    path = tmp_path / "buddy.bash"
    path.write_text(script(capsys, "bash"))
    words = shlex.join(("buddy", *typed))
    ran = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE.format(script=path, words=words, last=len(typed))],
        env={"PATH": f"{program.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert offered == set(ran.stdout.split()), ran.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_every_listed_option_is_in_the_script(
    capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    text = script(capsys, shell)
    assert [name for name in COMMANDS if name not in text] == []
    listed = [name for names, _value, takers, _help in OPTIONS if takers for name in names.split()]
    prefix = "" if shell != "fish" else "-l "
    wanted = [name if shell != "fish" else prefix + name[2:] for name in listed if name.startswith("--")]
    assert [name for name in wanted if name not in text] == []
    assert "buddy completion sessions" in text


def test_fish_reads_quotes_in_a_description_as_text() -> None:
    (line,) = {line for line in fish_script().splitlines() if " exec' -l require-trust " in line}
    assert line.endswith(r"-d 'refuse to run in a folder you don\'t trust'")


@pytest.mark.parametrize("words", [(), ("tcsh",), ("bash", "zsh")])
def test_another_shell_is_refused_with_what_was_expected(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"expected: buddy completion bash\|zsh\|fish"):
        completion(Options(words=words), {})


def test_profiles_that_a_shell_would_not_read_as_one_word_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "config" / "buddy" / "buddy.toml"
    config.parent.mkdir(parents=True)
    profile = 'model = "openai/gpt-4o"\n'
    config.write_text(f'[models.fast]\n{profile}[models."$(id)"]\n{profile}[models."two words"]\n{profile}')
    environment = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"), "PATH": "/usr/bin"}
    assert completion(Options(words=("profiles",)), environment) == 0
    assert capsys.readouterr().out.split("\n") == ["fast", ""]
