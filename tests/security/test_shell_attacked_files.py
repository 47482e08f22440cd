"""Commands that open more files than they name: what they compare, lists, links behind links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from buddy.safety.shell.scripts import script_digests
from tests.support.shell_project import ShellProject, shell_project


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    """A workspace whose folder `leak` holds a link to a key outside, under the name of an ordinary file."""
    made = shell_project(tmp_path)
    (made.home / ".ssh").mkdir(parents=True, exist_ok=True)
    (made.home / ".ssh" / "id_rsa").write_text("KEY\n")
    for folder in ("leak", "plain", "other", "around", "secret"):
        (made.root / folder).mkdir()
    (made.root / "leak" / "a").symlink_to(made.home / ".ssh" / "id_rsa")
    (made.root / "plain" / "a").write_text("three\n")
    (made.root / "other" / "a").write_text("four\n")
    (made.root / "around" / "on").symlink_to("../leak")
    (made.root / "secret" / "a").symlink_to("../.env")
    (made.root / "far").symlink_to("leak")
    os.mkfifo(made.root / "other" / "b")
    return made


@pytest.mark.parametrize(
    "command",
    [
        "diff a leak",
        "diff leak a",
        "diff ./a leak/",
        "diff plain/a leak",
        "diff -u a far",
        "diff -y leak plain/a",
        "diff -q a leak",
        "diff leak plain",
        "diff plain leak",
        "diff -q leak plain",
        "diff -N plain leak",
        "diff -r plain leak",
        "diff -r plain around",
        "diff -rq around plain",
        "diff a secret",
        "diff plain secret",
        "diff b other",
        "cd plain && diff a ../leak",
        "git diff --no-index a leak",
        "git diff --no-index leak a",
        "git diff a leak",
        "git diff --no-index b other",
        "git -C plain diff --no-index a ../leak",
        "grep -R x around",
        "ls | xargs diff a",
    ],
)
def test_ATTACK_F1_a_comparison_with_a_folder_opens_the_file_in_it(
    project: ShellProject, command: str
) -> None:
    assert project.analyse(command).level == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "diff a b",
        "diff a plain",
        "diff plain a",
        "diff plain other",
        "diff -r plain src",
        "diff - a",
        "git diff --no-index a b",
        "grep -R x plain",
    ],
)
def test_ATTACK_F1_ordinary_comparisons_are_not_asked_about(project: ShellProject, command: str) -> None:
    assert project.analyse(command).level == "core"


def test_ATTACK_F1_folders_in_a_circle_of_links_are_looked_through_once(project: ShellProject) -> None:
    (project.root / "plain" / "up").symlink_to("../plain")
    (project.root / "plain" / "top").symlink_to("..")

    assert project.analyse("diff -r plain src").level == "ask"  # through `top` it reaches `leak`


@pytest.mark.parametrize("program", ["md5sum", "sha1sum", "sha256sum", "sha512sum", "b2sum", "shasum"])
@pytest.mark.parametrize("option", ["-c", "--check", "-wc"])
def test_ATTACK_F9_a_list_of_sums_names_files_to_open(
    project: ShellProject, program: str, option: str
) -> None:
    assert project.analyse(f"{program} {option} a").level == "ask"
    assert project.analyse(f"{program} a").level == "core"


@pytest.mark.parametrize("option", ["-f", "-d", "-i", "-A", "--fqdn", "--domain", "--ip-address"])
def test_ATTACK_a_full_host_name_may_be_asked_of_the_network(project: ShellProject, option: str) -> None:
    assert project.analyse(f"hostname {option}").level == "ask"
    assert project.analyse("hostname -s").level == "core"


@pytest.mark.parametrize("command", ["cat$IFS./f", "$x/y", "./a$x b", "python3 $x.py", "sh ./$x"])
def test_a_script_whose_name_only_the_shell_knows_is_judged_without_content(
    project: ShellProject, command: str
) -> None:
    analysis = project.analyse(command)
    assert analysis.level == "ask"
    assert script_digests(analysis, project.boundary) == ((),)
