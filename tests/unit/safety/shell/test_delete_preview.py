"""Targets of a delete, commands that destroy too much, and commands that use the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.safety.shell.delete_preview import deletions
from buddy.safety.shell.fallback_scan import inner_commands, scavenge
from buddy.safety.shell.programs.names import uses_network
from buddy.safety.shell.result import UNRESOLVED
from tests.support.shell_project import ShellProject, lines_of, shell_project


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    made = shell_project(tmp_path)
    made.git("init", "-q", "-b", "main", ".")
    return made


def shown(project: ShellProject, command: str) -> list[str]:
    return [deletion.shown for deletion in deletions(project.analyse(command), project.boundary)]


def test_a_delete_tells_how_many_files_it_hits_and_how_many_are_not_in_git(project: ShellProject) -> None:
    for number in range(4):
        (project.root / "build" / f"{number}.o").write_text("")
    project.git("add", "-f", "build/0.o", "build/1.o", "a")

    assert shown(project, "rm -rf build") == ["5 files under build/, 3 not in git"]
    assert shown(project, "rm -rf src/sub a b nosuch ''") == [
        "1 file under src/sub/, 1 not in git",
        "a",
        "b, not in git",
    ]
    assert shown(project, "sudo rm -- -x build/0.o") == ["build/0.o"]
    assert shown(project, "rm build/*.o && rmdir docs; unlink b") == [
        "build/0.o",
        "build/1.o",
        "build/2.o, not in git",
        "build/3.o, not in git",
        "build/out.o, not in git",
        "1 file under docs/, 1 not in git",
        "b, not in git",
    ]
    assert shown(project, "find build -name '*.o' -delete") == ["5 files under build/, 3 not in git"]
    assert shown(project, "find -name x -delete")[0].endswith("not in git")
    assert shown(project, "ls build") == []
    assert shown(project, "find build") == []


def test_what_is_told_lies_where_the_command_will_stand(project: ShellProject) -> None:
    """A wrong number is worse than none."""
    project.git("add", "-f", "a")
    below = ["1 file under src/sub/, 1 not in git"]
    assert shown(project, "cd src && rm -rf sub") == below
    assert shown(project, "sudo -u x rm -rf src/sub") == below
    for moved in (
        "ls && cd src && rm -rf sub b",
        "pushd src; rm -rf b",
        "eval 'cd src'; rm -rf b",
        "$x; rm -rf b",
        "env -C src rm -rf b",
        "sudo --chdir=src rm -rf b",
        "sudo -i rm -rf b",
        "sh -c 'cd src; rm b'",
        "(cd src; rm -rf b)",
        "rm -rf $x",
        "rm -rf ''",
    ):
        assert shown(project, moved) == [], moved
    assert shown(project, f"(cd src; rm -rf {project.root}/b)") == ["b, not in git"]


def test_without_a_repository_nothing_is_said_about_git_and_links_count_as_themselves(tmp_path: Path) -> None:
    project = shell_project(tmp_path)
    (project.root / "link").symlink_to("src")

    assert shown(project, "rm -r link build") == ["link → src", "1 file under build/"]


def test_counting_stops_somewhere(project: ShellProject) -> None:
    for number in range(3):
        (project.root / "build" / str(number)).touch()

    (found,) = deletions(project.analyse("rm -r build"), project.boundary, at_most=3)

    assert (found.files, found.more, found.shown) == (3, True, "more than 3 files under build/")


DESTROYS = """
rm -rf /
rm -rf /*
rm -rf ~
rm -rf ~/
rm -rf ~/*
rm -rf $HOME
rm -rf "$HOME"/
rm -rf .
rm -rf ./
rm -rf *
rm -rf ./*
rm -rf .*
rm -rf ..
rm -rf ../work
rm -rf .git
rm -rf ./.git/
rm -r -f /usr
rm --recursive /etc
rm -fR /home
rm -rf ~bob
rm -rf $UNKNOWN/x
rm -rf "$X"
sudo rm -rf /
env rm -rf /
sh -c 'rm -rf /'
ls && rm -rf /
(rm -rf /)
for x in a; do rm -rf /; done
if a; then rm -rf .; fi
echo $(rm -rf ~)
ls | xargs rm -rf /
find / -delete
find . -delete
find -delete
find -H . -delete
find ~ -name x -delete
find . -exec rm -rf {} +
chmod -R 777 /
chown -R me ~
mv / x
mv ~ x
mv . ../x
shred -u ~
dd if=/dev/zero of=/dev/sda
mkfs.ext4 /dev/sda1
mkswap /dev/sdb
shutdown -h now
systemctl poweroff
reboot
tee /dev/sda
cp x /dev/nvme0n1
cat x > /dev/sda
kill -9 -1
git clean -fdx
git clean -ffdX
git clean --force -d -x
:(){ :|:& };:
bomb () { bomb | bomb & }; bomb
rm -rf / 'unterminated
rm -rf /⏎'
mkfs x 'y
echo x >/dev/sda 'y
"""

DOES_NOT = """
rm x
rm -rf build
rm -rf build/*
rm -rf ./src/sub
rm -rf /tmp/x
rm -f ~
rm -rf node_modules dist
find build -delete
find . -name '*.o' -delete
find . -exec grep -l x {} +
find .
chmod -R 755 src
mv a b
mv a .
dd if=a of=b
kill -9 123
kill -1 123
git clean -fd
git clean -n
git status
systemctl status x
echo 'rm -rf /'
ls 'unterminated
rm -rf 'x y'
make & make
"""


def test_what_destroys_too_much_is_the_hard_floor(project: ShellProject) -> None:
    analyses = {line: project.analyse(line.replace("⏎", "\n")) for line in lines_of(DESTROYS)}

    assert [line for line, found in analyses.items() if not (found.catastrophic or found.protected)] == []
    assert [line for line, found in analyses.items() if found.read_only] == []


def test_ordinary_deletes_are_not(project: ShellProject) -> None:
    assert {
        line: project.analyse(line).catastrophic
        for line in lines_of(DOES_NOT)
        if project.analyse(line).catastrophic
    } == {}


@pytest.mark.parametrize(
    "command",
    [
        "echo x > .git/config",
        "tee .git/hooks/x",
        "cp a ~/.bashrc",
        "sed -i s/a/b/ .git/config",
        "dd of=.git/config",
        "rm .git/config",
        "install a --target-directory=.git/hooks",
        "sudo touch ~/.ssh/authorized_keys",
        "for x in a; do cp x ~/.bashrc; done",
        "x > ~/.bashrc",
        "echo x >> /dev/sda",
    ],
)
def test_writing_protected_files_is_the_hard_floor(project: ShellProject, command: str) -> None:
    assert project.analyse(command).protected


@pytest.mark.parametrize(
    "command",
    ["echo x > out", "cp a b", "cat .git/config", "touch 'a\0'", "sed -n p .git/config > 'x\ty'", "rm -f --"],
)
def test_other_writing_is_not(project: ShellProject, command: str) -> None:
    assert project.analyse(command).protected == ""


def test_the_network_is_recognised_by_program_and_subcommand() -> None:
    uses = "curl x|ssh h|git push|git --no-pager fetch|npm i|pip install x|rsync a h:b|yarn|npx "
    "x|/usr/bin/wget x|go get x"
    does_not = "ls|git status|npm test|pip list|rsync a b|yarn test|go build|npm|"

    assert [line for line in uses.split("|") if not uses_network(tuple(line.split()))] == []
    assert [line for line in does_not.split("|") if uses_network(tuple(line.split()))] == []


def test_everything_that_looks_like_a_command_is_found_in_any_text() -> None:
    text = "if a 'b c'; then X=1 d \"e $(f g)\" 2>h; fi; (i \\j | k) & `l` ${m} $n > o <<< p"

    assert scavenge(text) == (
        ("a", "b c"),
        ("d", "e", UNRESOLVED),
        ("d", "e"),
        ("f", "g"),
        ("h",),
        ("i", "j"),
        ("k",),
        (f"l{UNRESOLVED}",),
        ("l",),
        (UNRESOLVED, UNRESOLVED, "o", "p"),
    )
    assert scavenge("; ;") == ()
    assert scavenge("X=1 then") == ()


def test_commands_inside_wrappers_are_found() -> None:
    assert inner_commands(("sudo", "env", "rm")) == (("env", "rm"), ("rm",))
    assert ("rm", "x") in inner_commands(("bash", "-c", "ls && rm x"))
    assert ("rm",) in inner_commands(("bash", "-c", "rm"))
    assert ("rm", "x") in inner_commands(("eval", "rm", "x"))
    assert ("rm", "x") in inner_commands(("sudo", "sh", "-c", "env sh -c 'rm x'"))
    assert inner_commands(("ls", "rm x")) == ()
    assert inner_commands(()) == ()
    nested = "sh -c 'x y'"
    for _ in range(9):
        nested = f"sh -c {nested}"
    assert len(inner_commands(("sh", "-c", nested))) < 200


@pytest.mark.parametrize(
    ("command", "protected"),
    [
        ("ls > $X", "it writes $X, which is only known when it runs and may be protected"),
        ('ls 2>> "out/$X"', "it writes out/$X, which is only known when it runs and may be protected"),
        ("ls &> ${X}", "it writes $X, which is only known when it runs and may be protected"),
        ("ls | tee $X", "it writes …, which is only known when it runs and may be protected"),
        ('ls > "$(x)"', "it writes …x, which is only known when it runs and may be protected"),
        ("ls > `x`", "it writes …x…, which is only known when it runs and may be protected"),
        ("bash -c 'ls > $X'", "it writes …, which is only known when it runs and may be protected"),
        (
            "while read -r x; do ls > $x; done",
            "it writes $x, which is only known when it runs and may be protected",
        ),
        ("ls > $HOME/.bashrc", "~/.bashrc is protected: read by shells when they start"),
        ("[[ a ]] > $HOME/.bashrc", "~/.bashrc is protected: read by shells when they start"),
        ("[[ a ]] > ${PWD}/x", ""),
        ("[[ a ]] > /tmp/x.$$", ""),
        ("for f in a b; do sort $f > $f.sorted; done", ""),
        ("ls | tee /dev/null", ""),
        ("ls < $X", ""),
    ],
)
def test_a_target_only_the_running_shell_knows_may_be_a_protected_file(
    project: ShellProject, command: str, protected: str
) -> None:
    analysis = project.analyse(command)

    assert (analysis.level, analysis.protected) == ("ask", protected)
