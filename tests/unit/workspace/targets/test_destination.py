"""Nothing from the settings becomes an option of ssh, or a word of a shell."""

from __future__ import annotations

import pytest

from buddy.workspace.targets.destination import SshDestination
from buddy.workspace.targets.transport import DestinationError

GOOD = SshDestination("box", "build1.example.org", "/srv/app", "deploy", 2222, "/home/me/ssh_config")


@pytest.mark.parametrize(
    "host",
    [
        *("-oProxyCommand=touch /tmp/x", "-v", "", " ", "a b", "a;b", "$(id)", "`id`", "a|b", "a&b", "a\nb"),
        *("a'b", 'a"b', "a\\b", "%h", "a%eth0", "me@box", "box/", "ü", "a\0b", "ssh://box", "x" * 300),
    ],
)
def test_a_host_is_a_name_and_nothing_else(host: str) -> None:
    with pytest.raises(DestinationError, match=r"\[targets\.box\] host"):
        SshDestination("box", host, "/srv").check()


@pytest.mark.parametrize("user", ["-l", "a b", "a;b", "$(id)", "%r", "a\nb", "a'", "-oX=y"])
def test_a_user_is_a_name_and_nothing_else(user: str) -> None:
    with pytest.raises(DestinationError, match=r"\[targets\.box\] user"):
        SshDestination("box", "host", "/srv", user).check()


@pytest.mark.parametrize(
    "name", ["../../etc", "a/b", "", "-box", ".box", "local", "a b", "a\x1b[2J", "box\n"]
)
def test_a_name_is_no_path_and_no_option(name: str) -> None:
    with pytest.raises(DestinationError, match="expected a name"):
        SshDestination(name, "host", "/srv").check()


@pytest.mark.parametrize("folder", ["", "/srv\n", "/srv/\x1b", "x" * 2000])
def test_a_folder_can_be_shown(folder: str) -> None:
    with pytest.raises(DestinationError, match="folder"):
        SshDestination("box", "host", folder).check()


@pytest.mark.parametrize("config", ["config", "-oProxyCommand=x", "~/x"])
def test_a_configuration_file_has_an_absolute_path(config: str) -> None:
    with pytest.raises(DestinationError, match="config"):
        SshDestination("box", "host", "/srv", config=config).check()


@pytest.mark.parametrize(
    "host", ["build1", "10.0.0.1", "fe80::1", "[fe80::1]", "a-b.example.org", "UPPER_case"]
)
def test_usual_names_pass(host: str) -> None:
    SshDestination("box", host, "/srv").check()


def test_the_host_stands_behind_the_end_of_the_options() -> None:
    for argv in (GOOD.master_argv("ssh", "/s"), GOOD.channel_argv("ssh", "/s")):
        assert argv[-3:] == ("--", "build1.example.org", "exec /bin/sh -s")
    assert GOOD.files_argv("ssh", "/s")[-3:] == ("--", "build1.example.org", "sftp")


def test_every_connection_asks_nothing_and_forwards_nothing() -> None:
    for argv in (GOOD.master_argv("ssh", "/s"), GOOD.channel_argv("ssh", "/s"), GOOD.files_argv("ssh", "/s")):
        for option in (
            "BatchMode=yes",
            "ForwardAgent=no",
            "ClearAllForwardings=yes",
            "Tunnel=no",
            "PermitLocalCommand=no",
        ):
            assert argv[argv.index(option) - 1] == "-o"
        assert not any("StrictHostKeyChecking" in word for word in argv)
        assert argv[argv.index("-F") + 1] == "/home/me/ssh_config"
        assert argv[argv.index("-l") + 1] == "deploy"
        assert argv[argv.index("-p") + 1] == "2222"


def test_a_channel_opens_no_connection_of_its_own() -> None:
    for argv in (GOOD.channel_argv("ssh", "/s"), GOOD.files_argv("ssh", "/s")):
        assert "ControlMaster=no" in argv
        assert "ProxyCommand=false" in argv
