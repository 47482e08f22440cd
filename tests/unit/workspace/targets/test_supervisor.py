"""The scripts for the other side, run by the `sh` of this machine."""

from __future__ import annotations

import subprocess

import pytest

from buddy.agent.tool import ToolError
from buddy.workspace.targets.supervisor import read_report, run_script
from tests.capabilities import requires

pytestmark = requires("linux")


def run(command: str, folder: str = "/", *, proc: str = "/proc") -> tuple[str, dict[str, str]]:
    """Run a script with an input that stays open, and return its output and its report."""
    with subprocess.Popen(
        ["setsid", "sh", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(run_script("tag1", folder, command, proc=proc))
        process.stdin.flush()
        out, report = process.stdout.read().decode(), process.stderr.read().decode()
    return out, read_report(report, "tag1").words


@pytest.mark.parametrize(
    "command",
    ["echo 'a b'", 'echo "it\'s"', "printf '%s\\n' 'a\nb' '!x' '$HOME'", "echo ü €", "cat <<'X'\n'\"\nX"],
)
def test_a_command_arrives_as_it_was_written(command: str) -> None:
    expected = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout
    out, words = run(command)
    assert (out, words["code"], words["left"]) == (expected, "0", "0")


def test_the_exit_code_is_the_commands_own() -> None:
    assert run("exit 7")[1]["code"] == "7"
    assert run("kill -KILL $$")[1]["code"] == "137"


def test_nothing_runs_in_a_folder_that_does_not_exist() -> None:
    out, words = run("echo ran", "/nowhere/at all/it's")
    assert (out, "no-folder" in words) == ("", True)


def test_a_command_reads_nothing_and_sees_no_descriptor_of_ours() -> None:
    out, _words = run("cat; ls /proc/self/fd | wc -l")
    assert out.strip() == "4"  # the three usual ones, and the one that lists them


def test_without_proc_the_process_group_is_ended() -> None:
    _out, words = run("sleep 86394.5 & echo started", proc="/nowhere")
    assert words["left"] == "1"
    assert subprocess.run(["pgrep", "-f", "sleep 86394.5"], check=False, capture_output=True).stdout == b""


def test_lines_of_a_command_are_no_report() -> None:
    assert read_report("buddy:other code=0\nbuddy:tag1 code=5 shell=sh left=0\n", "tag1").words == {
        "code": "5",
        "shell": "sh",
        "left": "0",
    }


@pytest.mark.parametrize("command", ["a\0b", "x" * 130_000])
def test_what_can_not_be_sent_is_refused(command: str) -> None:
    with pytest.raises(ToolError):
        run_script("tag1", "/", command)
