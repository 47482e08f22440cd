"""The places a yes opens for a confined command: those its request names, never one that stays closed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from buddy.safety.paths import Boundary
from buddy.safety.sandbox_openings import MOST_PLACES, OutsideWrites, outside_writes
from buddy.safety.shell.analysis import Analyser
from buddy.safety.shell.context import TRUSTED_PATH, CommandPlace
from buddy.safety.shell.write_targets import targets


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = Path(os.path.realpath(tmp_path)) / "home"
    for name in ("work", "other/sub", "third", "fourth", "fifth", ".config/git", ".local/share", ".ssh"):
        (made / name).mkdir(parents=True)
    for name in (".bashrc", "notes.txt", "other/file", ".ssh/id_rsa", "other/.env", "linked"):
        (made / name).write_text("as it was\n")
    os.link(made / ".bashrc", made / "twin")
    (made / "away").symlink_to(made / ".ssh")
    (made / "there").symlink_to(made / "other")
    (made / "other/.git/hooks").mkdir(parents=True)
    return made


def judged(command: str, home: Path, own: tuple[str, ...] = ()) -> OutsideWrites:
    boundary = Boundary(str(home / "work"), str(home / "work"), str(home), own=own)
    analysis = Analyser().analyse(command, CommandPlace(boundary, TRUSTED_PATH))
    return outside_writes(analysis.writes, boundary, own_tmp=True)


@pytest.mark.parametrize(
    ("command", "places"),
    [
        ("touch ~/other/x", ["other"]),
        ("echo a > ~/other/x", ["other"]),
        ("echo a >> ~/other/file", ["other"]),
        ("cd ~/other && touch x", ["other"]),
        ("cd ~/other && touch sub/x", ["other/sub"]),
        ("cp main.py ~/other", ["other"]),
        ("cp -t ~/other main.py", ["other"]),
        ("cp main.py ~/other/new.py", ["other"]),
        ("mv ~/third/x ~/other/", ["other", "third"]),
        ("mkdir -p ~/other/a/b", ["other"]),
        ("rm -r ~/other/sub", ["other"]),
        ("sed -i s/a/b/ ~/other/file", ["other"]),
        ("dd if=main.py of=~/other/x", ["other"]),
        ("echo a | tee ~/other/x", ["other"]),
        ("curl -o ~/other/x https://a.example", ["other"]),
        ("env A=b touch ~/other/x", ["other"]),
        ("touch ~/there/x", ["other"]),  # where the link leads
        ("echo a >> ~/notes.txt", ["notes.txt"]),  # the home folder stays closed: the file alone
        ("for one in a b; do touch ~/other/$one; done", ["other"]),
        ("touch inside.txt", []),
        ("cat ~/other/file", []),
        ("touch ~/new.txt", []),  # only the home folder could be opened for it
        ("touch ~/.bashrc", []),
        ("echo a >> ~/twin", []),  # another name of a protected file
        ("touch ~/.ssh/x", []),
        ("touch ~/away/x", []),
        ("cp x ~/.config/tool.toml", []),
        ("touch ~/.local/x", []),
        ("touch ~/.local/share/x", []),
        ("touch ~/other/.git/hooks/post-commit", []),
        ("touch ~/other/.env", []),
        ("touch ~/other/.vscode/tasks.json", []),
        ("touch /etc/x", []),
        ("touch /x", []),
        ("touch /home/x", []),
        ("touch /usr/local/x", []),
        ("touch ../x", []),  # the folder around the workspace
        ("touch ~/$X/y", []),
        ("touch $(echo ~/other/x)", []),
        ("touch ~/other/a ~/third/a ~/fourth/a ~/fifth/a", []),  # more than anybody reads
        ("echo a > /dev/null", []),
    ],
)
def test_WALK_S4_a_yes_opens_the_named_folder_and_nothing_that_stays_closed(
    home: Path, command: str, places: list[str]
) -> None:
    found = judged(command, home)
    assert sorted(found.places) == sorted(str(home / place) for place in places)
    assert len(found.places) <= MOST_PLACES
    for place in places:
        assert f"~/{place}" in found.reason


def test_WALK_S4_buddys_own_folder_stays_closed_and_so_does_what_holds_it(home: Path) -> None:
    own = (str(home / "third/buddy"),)
    (home / "third/buddy").mkdir()
    assert judged("touch ~/third/buddy/x", home, own).places == ()
    assert judged("touch ~/third/x", home, own).places == ()
    assert judged("touch ~/other/x", home, own).places == (str(home / "other"),)


def test_WALK_S1_a_write_to_tmp_says_whose_tmp_it_is(home: Path) -> None:
    found = judged("echo s > /tmp/buddy-no-such-file; cat /tmp/buddy-no-such-file", home)
    assert found.places == ()
    assert found.reason == "/tmp/buddy-no-such-file is in the sandbox's own /tmp, not in yours"
    assert "/tmp/buddy-no-such-file is in the sandbox's own /tmp" in found.note


def test_WALK_S1_a_folder_in_tmp_that_exists_is_opened(home: Path) -> None:
    # The folder of this test lies in /tmp, and another home folder makes it one of anybody's.
    walk = home / "other"
    boundary = Boundary("/srv/work", "/srv/work", "/srv/home")
    place = CommandPlace(boundary, TRUSTED_PATH)
    analysis = Analyser().analyse(f"cd {walk} && touch outside.txt", place)
    found = outside_writes(analysis.writes, boundary, own_tmp=True)
    assert found.places == (str(walk),)
    assert found.note == ""
    assert found.reason == f"your yes opens {walk} to this command, which writes {walk}/outside.txt"


@pytest.mark.parametrize(
    "path", ["/tmp/no-such-name", "/var/tmp/no-such-name", "/tmp/buddy-sandbox-abc/tmp/x"]
)
def test_WALK_S1_neighbour_tmp_itself_and_buddys_folders_in_it_are_never_opened(
    home: Path, path: str
) -> None:
    assert judged(f"touch {path}", home).places == ()


@pytest.mark.parametrize(("name", "is_opened"), [("plain", True), (".config", False), (".x/plain", False)])
def test_WALK_S4_neighbour_settings_of_another_home_folder_stay_closed(
    home: Path, name: str, is_opened: bool
) -> None:
    folder = Path(tempfile.mkdtemp(dir=home)) / name
    folder.mkdir(parents=True)
    boundary = Boundary("/srv/work", "/srv/work", "/srv/home")
    analysis = Analyser().analyse(f"touch {folder}/x", CommandPlace(boundary, TRUSTED_PATH))
    places = outside_writes(analysis.writes, boundary, own_tmp=True).places
    assert places == ((str(folder),) if is_opened else ())


def test_WALK_S1_without_a_tmp_of_its_own_nothing_is_said_of_it(home: Path) -> None:
    boundary = Boundary(str(home / "work"), str(home / "work"), str(home))
    analysis = Analyser().analyse("touch /tmp/x-of-nobody", CommandPlace(boundary, TRUSTED_PATH))
    assert outside_writes(analysis.writes, boundary, own_tmp=False) == OutsideWrites()


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        (("touch", "-d", "now", "-r", "ref", "a", "--", "-b"), ["a", "-b"]),
        (("/usr/bin/touch", "a"), ["a"]),
        (("truncate", "-s", "0", "a"), ["a"]),
        (("install", "-m", "644", "a", "b"), ["b"]),
        (("install", "-d", "a", "b"), ["a", "b"]),
        (("cp", "a", "b", "--target-directory=c"), ["c"]),
        (("cp", "a"), []),
        (("mv", "d/a", "b"), ["b", "d"]),
        (("rm", "-rf", "d/a/"), ["d"]),
        (("rm", "a"), ["."]),
        (("sed", "s/a/b/", "a"), []),
        (("sed", "-i", "-e", "s/a/b/", "a"), ["a"]),
        (("dd", "if=a", "of=b"), ["b"]),
        (("wget", "-O", "a", "https://b.example"), ["a"]),
        (("curl", "--output=a", "https://b.example"), ["a"]),
        (("cat", "a"), []),
        (("touch", "a\0b"), []),
        ((), []),
    ],
)
def test_the_targets_of_a_command_are_what_its_words_say(argv: tuple[str, ...], found: list[str]) -> None:
    assert list(targets(argv)) == found
