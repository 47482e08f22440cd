"""Edges of ranges, limits and orders: each line here is a small fault that no other test would see."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from buddy.agent.tool import ToolError
from buddy.safety.paths import MAX_LINKS, Boundary, locate, open_beneath, replace_beneath
from buddy.safety.policy.decide import ASK, Mode, Verdict, judge
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import Rule, RuleSet, rules_to_save
from buddy.safety.sanitise import Sanitiser, clean, visible
from buddy.safety.url_guard import JudgedAddress, Refused, judge_url, resolve_and_judge, suspicious_url
from tests.support.shell_project import ShellProject, shell_project


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    return shell_project(tmp_path)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("\x1b[1@x", "x"),
        ("\x1b[1~x", "x"),
        ("\x1b[1[x", "x"),
        ("\x1b Fx", "x"),
        ("\x1b/Fx", "x"),
        ("\x1b0x", "x"),
        ("\x1b~x", "x"),
        ("\x1b([1mx", "1mx"),
        ("\x1b(]0;x", "0;x"),
    ],
)
def test_a_sequence_ends_where_the_standard_says(given: str, left: str) -> None:
    assert clean(given) == left
    whole = Sanitiser()
    assert "".join(map(whole.feed, given)) + whole.finish() == left


DROPPED = (
    *(0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180F, 0x2065, 0x3164, 0xFFA0, 0xFDD0, 0xFDEF),
    *(0xFE00, 0xFE0F, 0xFFF0, 0xFFF8, 0xFFFE, 0xFFFF, 0x1FFFE, 0x1FFFF, 0xE0000, 0xE0100, 0xE01EF, 0xE0FFF),
    0x10FFFF,
)
KEPT = (0x34E, 0x350, 0x115E, 0x1161, 0x17B3, 0x17B6, 0x180A, 0x1810, 0x3163, 0x3165, 0xFDCF, 0xFDF0, 0xFE10)
KEPT_TOO = (0xFF9F, 0xFFA1, 0xFFFD, 0x1FFFD, 0x20000, 0xE1000)


def test_what_is_never_seen_is_dropped_to_the_last_character_and_no_further() -> None:
    assert [hex(code) for code in DROPPED if clean(f"a{chr(code)}") != "a"] == []
    kept = (*KEPT, *KEPT_TOO)
    assert [hex(code) for code in kept if clean(f"a{chr(code)}") != f"a{chr(code)}"] == []


@pytest.mark.parametrize("before", ["", "x"])
def test_blank_lines_are_counted_from_the_first_on(before: str) -> None:
    """At the start as in the middle, whole as piece by piece."""
    text = before + "\n" * (6 if before else 5) + "y"
    counted = clean(text, blank_lines=2)
    assert counted == f"{before}\n\n\n⟨{3 if before else 2} blank lines⟩\ny"
    pieces = Sanitiser(blank_lines=2)
    assert "".join(map(pieces.feed, text)) + pieces.finish() == counted


def test_a_chain_of_links_is_followed_to_the_limit_and_no_further(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    boundary = Boundary(str(root), str(root), str(root))
    (root / "link0").write_text("")
    for number in range(1, MAX_LINKS + 2):
        (root / f"link{number}").symlink_to(f"link{number - 1}")
    assert locate(boundary, f"link{MAX_LINKS}").real == str(root / "link0")
    with pytest.raises(ToolError, match="too many links"):
        locate(boundary, f"link{MAX_LINKS + 1}")
    assert os.stat(root / f"link{MAX_LINKS}").st_size == 0  # the kernel's limit is ours
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        os.stat(root / f"link{MAX_LINKS + 1}")


def test_a_file_made_is_its_owners_alone_unless_said_otherwise(tmp_path: Path) -> None:
    os.close(open_beneath(str(tmp_path), "new", os.O_WRONLY | os.O_CREAT))
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_what_is_being_written_is_its_owners_alone_until_it_is_whole(tmp_path: Path) -> None:
    """The mode of the file comes with its last byte: nobody reads along, nobody starts half a program."""
    seen: set[int] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            for entry in os.scandir(tmp_path):
                try:
                    if entry.name.startswith(".buddy-") and entry.stat().st_size < len(data):
                        seen.add(entry.stat().st_mode & 0o777)
                except FileNotFoundError:
                    continue

    data = bytes(32_000_000)
    watcher = threading.Thread(target=watch)
    watcher.start()
    deadline = time.monotonic() + 30
    while not seen and time.monotonic() < deadline:
        replace_beneath(str(tmp_path), "file", data, 0o755)
    done.set()
    watcher.join()
    assert seen == {0o600}
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a" + " " * 16 + "b", "a" + " " * 16 + "b"),
        ("a" + " " * 17 + "b", "a⟨17 spaces⟩b"),
        ("é" + " " * 16 + "b", "é" + " " * 16 + "b"),
        ("é" + " " * 17 + "b", "é⟨17 spaces⟩b"),
        ("a" + "\u0301" * 4, "a\u0301\u0301⟨U+0301⟩⟨U+0301⟩"),
        ("a~\x7f", "a~⟨U+007F⟩"),
    ],
)
def test_what_is_decided_on_is_seen_whole(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_link_may_say_its_way_oddly_and_be_long(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    boundary = Boundary(str(root), str(root), str(root))
    (root / "sub").mkdir()
    for name, target in (
        ("a", "sub//file"),
        ("b", f"{root}//sub/./file"),
        ("c", "./sub/"),
        ("d", "sub//.//"),
    ):
        (root / name).symlink_to(target)
    found = {name: locate(boundary, name).real for name in "abcd"}
    sub = str(root / "sub")
    assert found == {"a": f"{sub}/file", "b": f"{sub}/file", "c": sub, "d": sub}
    deep = "/".join(["long" * 5] * 70)
    assert locate(boundary, deep).real == f"{root}/{deep}"
    longest = f"{root}/{'x/' * 1930}"
    longest += "e" * (4095 - len(longest.encode()))
    assert locate(boundary, longest).real == longest
    beside = Boundary(f"{root}/sub", str(root), "/nowhere")
    assert [locate(one, str(root)).shown for one in (boundary, beside)] == [".", "."]


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://8.8.8.8:1/", "8.8.8.8", 1),
        ("http://8.8.8.8:65535/", "8.8.8.8", 65535),
        ("http://0x08080808/", "8.8.8.8", 80),
        ("http://0x8.010.8.8/", "8.8.8.8", 80),
        ("http://8.8.0x808/", "8.8.8.8", 80),
    ],
)
def test_ports_and_numbers_are_read_to_their_ends(url: str, host: str, port: int) -> None:
    judged = judge_url(url)
    assert isinstance(judged, JudgedAddress)
    assert (judged.host, judged.port) == (host, port)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://8.8.8.8:0/", "port 0 does not exist"),
        ("http://8.8.8.8:65536/", "port 65536 does not exist"),
        ("http://1.2.3.4.0/", "1.2.3.4.0 is not an address"),
        ("http://1.2.3.4.5.0/", "1.2.3.4.5.0 is not an address"),
        ("http://8.8.8.256/", "8.8.8.256 is not an address"),
        ("http://8.256.8.8/", "8.256.8.8 is not an address"),
    ],
)
def test_beyond_their_ends_they_are_refused(url: str, why: str) -> None:
    assert judge_url(url) == Refused(why)


@pytest.mark.parametrize("host", ["0x7f.1", "0x", "[2607:f8b0::5efe:a00:1]", "[2607:f8b0::200:5efe:a00:1]"])
def test_private_places_in_odd_numbers_are_refused(host: str) -> None:
    assert isinstance(judge_url(f"http://{host}/"), Refused)


async def test_a_name_server_that_fails_without_a_number_is_quoted() -> None:
    async def fails(host: str, port: int) -> Sequence[str]:
        raise OSError("no route")

    found = await resolve_and_judge("e.example", 80, fails)
    assert found == Refused("e.example cannot be found: no route", is_failure=True)


RANDOM = "q7Zk3Xv9Lm2Rt8Wp5Bn1Hd6"


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (f"?q={RANDOM[:18]}", "its query holds a long random text, as a secret would be"),
        (f"?q={RANDOM[:17]}", ""),
        (f"{RANDOM[:20]}", "its path holds a long random text, as a secret would be"),
        (f"{RANDOM[:19]}", ""),
        ("a1/b2", ""),
        ("zzzzzzzzzzzzzzzzzzzzzzzzzzz1", ""),
        ("thequickbrownfoxjumpsoverthelazydog", ""),
        ("xkQvbzWnmpLrtyHgfdkwcsa", ""),
        ("xkQvbzWnmpLrtyHgfdKwcsa", "its path holds a long random text, as a secret would be"),
        ("?q=" + "a+" * 249, ""),
        ("?q=" + "a+" * 249 + "b", "its query is 501 characters long"),
    ],
)
def test_what_carries_data_away_is_told_from_words_at_the_limit(tail: str, why: str) -> None:
    assert suspicious_url(f"https://e.example/{tail}") == why


def decide(facts: Facts, mode: Mode, *rules: Rule) -> Verdict:
    return judge(facts, mode, RuleSet(rules), (), ASK, trusted=True, now=0.0)


def facts(project: ShellProject, **more: Any) -> Facts:
    return Facts(
        **{
            "tool": "edit_file",
            "risk": "medium",
            "root": str(project.root),
            "home": str(project.home),
            **more,
        }
    )


def test_plan_mode_is_stricter_than_any_rule_that_allows(project: ShellProject) -> None:
    edit = facts(project, writes=(locate(project.boundary, "src/main.py"),))
    allow = Rule("edit", "allow", "user", path="src/**")
    assert decide(edit, "ask", allow).decision == "allow"
    assert decide(edit, "plan", allow).decision == "deny"


def test_an_edit_that_a_mode_lets_through_is_not_called_reading(project: ShellProject) -> None:
    verdict = decide(facts(project, writes=(locate(project.boundary, "src/main.py"),)), "edit")
    assert (verdict.decision, verdict.decided_by) == ("allow", "mode")


def test_the_reason_names_the_path_that_is_the_reason(project: ShellProject) -> None:
    both = tuple(locate(project.boundary, name) for name in ("src/main.py", "../other/x"))
    verdict = decide(facts(project, tool="read_file", risk="low", reads=both), "ask")
    assert verdict.decision == "ask"
    assert "other/x" in verdict.reason
    assert "main.py" not in verdict.reason


def test_only_what_was_asked_about_can_be_saved(project: ShellProject) -> None:
    def shell(command: str) -> Facts:
        return facts(project, tool="run_shell", risk="high", anything=True, shell=project.analyse(command))

    asked, runs = decide(shell("make test"), "ask"), decide(shell("make test"), "yolo")
    assert [bool(asked.rules_to_save), runs.decision, runs.rules_to_save] == [True, "allow", ()]
    assert rules_to_save(shell("'' x")) == ()


@pytest.mark.parametrize(
    "command",
    [
        *("tar -txf f", "tar -xtf f", "tar txf f", "tar tfx f", "tar -tIf sh f", "tar -tf f -x"),
        *("tar tff f f", "tar tff f", "tar xf f", "tar txf", "tar -f f -x -t"),
    ],
)
def test_tar_lists_only_when_every_letter_does(project: ShellProject, command: str) -> None:
    assert not project.analyse(command).read_only
    assert project.allowed("tar -tvf f⏎tar -tff⏎tar -tf f.tar -v⏎tar tfv f".replace("⏎", "\n")) == [
        *("tar -tvf f", "tar -tff", "tar -tf f.tar -v", "tar tfv f")
    ]


@pytest.mark.parametrize(
    ("url", "decision"),
    [
        ("https://docs.python.org/3/", "allow"),
        ("https://DOCS.python.org./3/", "allow"),
        ("https://docs.python.org.evil.example/", "ask"),
        ("https://evil-docs.python.org/", "ask"),
        ("https://docs.python.org@evil.example/", "refused"),
        ("https://sub.good.example/", "allow"),
        ("https://notgood.example/", "ask"),
    ],
)
def test_SEC_071_a_rule_for_a_host_allows_that_host_alone(
    project: ShellProject, url: str, decision: str
) -> None:
    allowed = [Rule("fetch", "allow", "user", host=host) for host in ("docs.python.org", ".good.example")]
    judged = judge_url(url)
    if isinstance(judged, Refused):
        assert decision == "refused"
        return
    fetch = facts(project, tool="web_fetch", risk="high", host=judged.host)
    assert decide(fetch, "ask", *allowed).decision == decision
