"""Nothing from the settings becomes an option of docker or podman, and what they say is explained."""

from __future__ import annotations

import pytest

from buddy.workspace.targets.container import ContainerDestination
from buddy.workspace.targets.transport import DestinationError, TargetError

GOOD = ContainerDestination("box", "web-1", "/srv/app", "deploy:staff", "podman")


@pytest.mark.parametrize(
    "container",
    [
        *("", "-it", "--privileged", " ", "a b", "a;b", "$(id)", "a/b", "a\nb", "a\0b", "ü", "x" * 300),
        *(".hidden", "_x", "a:b", "a'b", "{{.ID}}"),
    ],
)
def test_a_container_is_a_name_and_nothing_else(container: str) -> None:
    with pytest.raises(DestinationError, match=r"\[targets\.box\] container"):
        ContainerDestination("box", container).check()


@pytest.mark.parametrize("user", ["-u", "a b", "a:", ":a", "a:b:c", "$(id)", "a\nb", "--privileged"])
def test_a_user_is_a_name_and_nothing_else(user: str) -> None:
    with pytest.raises(DestinationError, match=r"\[targets\.box\] user"):
        ContainerDestination("box", "web", user=user).check()


@pytest.mark.parametrize("folder", ["srv", "-x", "~", "/srv\n", "/srv/\x1b[2J", "/" + "x" * 2000])
def test_a_folder_is_a_path_that_can_be_shown(folder: str) -> None:
    with pytest.raises(DestinationError, match=r"\[targets\.box\] folder"):
        ContainerDestination("box", "web", folder).check()


@pytest.mark.parametrize("program", ["./docker", "bin/docker", "-docker", "docker exec", "docker;id", "../x"])
def test_a_program_is_a_name_or_a_whole_path(program: str) -> None:
    with pytest.raises(DestinationError, match=r"\[targets\.box\] program"):
        ContainerDestination("box", "web", program=program).check()


@pytest.mark.parametrize("name", ["local", "a/b", "", "-x", "x\n"])
def test_a_name_is_that_of_any_target(name: str) -> None:
    with pytest.raises(DestinationError, match="expected a name"):
        ContainerDestination(name, "web").check()


@pytest.mark.parametrize("container", ["web", "web-1", "my_app.1", "4f66ad9a0b2e", "W"])
def test_usual_names_and_ids_pass(container: str) -> None:
    ContainerDestination("box", container).check()
    GOOD.check()


def test_every_shell_is_started_without_a_terminal_and_without_privileges() -> None:
    for argv in (GOOD.master_argv("p", "/s"), GOOD.channel_argv("p", "/s"), GOOD.files_argv("p", "/s")):
        assert argv[:7] == ("p", "exec", "--interactive", "--detach-keys=", "--user", "deploy:staff", "web-1")
        assert argv[7:9] == ("/bin/sh", "-c")
    assert "--user" not in ContainerDestination("box", "web").channel_argv("p", "/s")


def test_the_first_program_there_is_taken() -> None:
    unnamed = ContainerDestination("box", "web")
    assert unnamed.locate_program(lambda name: f"/bin/{name}") == "/bin/docker"
    assert unnamed.locate_program(lambda name: "/bin/podman" if name == "podman" else None) == "/bin/podman"
    assert GOOD.locate_program(lambda name: f"/bin/{name}") == "/bin/podman"
    with pytest.raises(TargetError, match="expected the program docker or podman"):
        unnamed.locate_program(lambda _name: None)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Error response from daemon: No such container: web-1\n", "there is no container web-1"),
        (
            'Error: no container with name or ID "web-1" found: no such container',
            "there is no container web-1",
        ),
        ("Error response from daemon: container 4f66 is not running", "the container web-1 is not running"),
        (
            "Error: can only create exec sessions on running containers: container state improper",
            "the container web-1 is not running",
        ),
        (
            "Error response from daemon: Container web-1 is paused, unpause the container before exec",
            "the container web-1 is paused",
        ),
        (
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?",
            "the docker daemon does not run",
        ),
        (
            'OCI runtime exec failed: exec failed: exec: "/bin/sh": stat /bin/sh: no such file or directory',
            "the container web-1 has no /bin/sh",
        ),
        ("something else\x1b[2J\n\n", "something else⟨U+001B⟩[2J"),
        ("", ""),
    ],
)
def test_what_the_program_says_is_explained(said: str, told: str) -> None:
    assert GOOD.explain(said).startswith(told)
