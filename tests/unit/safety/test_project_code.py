"""Commands that run code of the project are recognised; those that notify or write a log are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from buddy.safety.project_code import runs_project_code

RUN_IT = [
    *("make", "make -s lint", "cd web && npm test", "timeout 60 npm run lint 2>&1 | tail", "/usr/bin/make"),
    *("npx prettier --write a.ts", "python -m pytest -q", "python3.12 -m mypy .", "python -c 'import app'"),
    *(
        "env CI=1 cargo test",
        "bash -c 'npm test'",
        'sh -lc "make check"',
        "(make) || true",
        "x=$(go vet ./...)",
    ),
    *("uv run ruff check", "FOO=1 tox", "git commit -am wip", "jq . | xargs make", "echo `make version`"),
    *(
        "./check.sh",
        "../repo/check.sh",
        "tools/check.sh",
        "$CLAUDE_PROJECT_DIR/tools/check.sh",
        "bash -s < x",
    ),
    *(
        '"$CLAUDE_PROJECT_DIR"/tools/check.sh',
        "sh tools/check.sh",
        "python3 tools/check.py",
        "node -e 'require(1)'",
    ),
    *(
        "su me -c 'make'",
        "eval 'npm test'",
        "watch -g 'make test'",
        "${CLAUDE_PROJECT_DIR}/x",
        ". tools/check.sh",
    ),
    *("python3 check.py", "node lint.js", "bash fmt.sh", "perl -w x.pl", "python3 -u -- check.py"),
    *("cd tools && python3 check.py", "cat check.py | python3", "python3 < check.py", ". env.sh"),
    *('"$PWD/tools/check.sh"', "${PWD}/tools/check.sh", "$(pwd)/tools/check.sh", "timeout 5 sh x.sh"),
    *("PATH=.:$PATH run", "export PATH=$PWD/bin:$PATH; run", "$TOOLS/run", '"${TOOLS}/run" now', "a; $X/b"),
    *("awk -f a.awk x", "gawk -fa.awk", "awk --file=a.awk", "vim -s x", "nvim -S s.vim", "gdb -batch -x s"),
    *("if true; then . env.sh; fi", "python3 ~/.claude/a.py; python3 b.py", "java -jar x.jar", "python3 $F"),
]
DO_NOT = [
    "notify-send 'buddy' 'the next task is to make tests'",
    'osascript -e \'display notification "make me go" with title "buddy"\'',
    "jq -r .tool_input.command >> ~/.claude/commands.log",
    "jq -r '\"\\(.tool_input.command) - \\(.tool_input.description)\"' >> ~/log.txt",
    "python3 ~/.claude/hooks/notify.py",
    "/opt/tools/notify.sh",
    "bash ~/.claude/hooks/notify.sh",
    "python3 -u ~/.claude/hooks/notify.py --quiet .",
    "python3 $HOME/.claude/hooks/notify.py",
    '"${HOME}/bin/notify"',
    ". ~/.profile; notify-send done",
    "python3 --version >> ~/log.txt || true",
    "find . -newer ~/mark >> ~/log.txt",
    "afplay /System/Library/Sounds/Glass.aiff",
    "curl -s -d 'done' https://ntfy.example/topic",
    "ruff format $(jq -r .tool_input.file_path)",
    "gofmt -w a.go",
    "echo started; exit 0",
    "read line; case \"$line\" in *secret*) echo 'no secrets' >&2; exit 2;; esac",
    "awk '{print $1}' ~/log | curl -s -d @- https://ntfy.example/topic",
    "echo done >> $LOGS/hooks.log",
    "vim --version >> ~/log.txt",
    "true",
    "",
]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, ...]:
    root = tmp_path.resolve() / "repo"
    (root / "tools").mkdir(parents=True)
    for name in ("tools/check.sh", "tools/check.py"):
        (root / name).touch()
    return (str(root),)


@pytest.mark.parametrize("command", RUN_IT)
def test_it_runs_code_of_the_project(command: str, folders: tuple[str, ...]) -> None:
    assert runs_project_code(command, folders)


@pytest.mark.parametrize("command", DO_NOT)
def test_it_runs_none(command: str, folders: tuple[str, ...]) -> None:
    assert not runs_project_code(command, folders)


def test_a_program_of_the_project_is_known_by_its_whole_path(folders: tuple[str, ...]) -> None:
    assert runs_project_code(f"{folders[0]}/tools/check.sh", folders)
    assert not runs_project_code(f"{folders[0]}-other/tools/check.sh", folders)


def test_a_path_from_the_home_folder_may_lie_in_the_project(
    folders: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", os.path.dirname(folders[0]))
    for command in ("~/repo/tools/check.sh", "$HOME/repo/tools/check.sh", "python3 ~/repo/tools/check.py"):
        assert runs_project_code(command, folders)
