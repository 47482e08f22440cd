"""Twenty hostile repositories against the whole program, before trust: nothing runs but buddy, nobody is
called but the configured server, the key goes nowhere else, and every command comes to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.capabilities import requires
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.hostile_repositories.repositories import REPOSITORIES
from tests.support.program import KEY, Program
from tests.support.terminal import on_terminal
from tests.support.traced_program import Alarmed, run_traced, trapped

ESC = "\x1b"
LOCAL_MODEL_SERVERS = {1234, 8000, 8080, 11434}
"""`buddy doctor` looks for local model servers at the usual ports."""
IGNORED = "buddy.toml of this folder is ignored until you trust the folder (/trust, --trust)"
WITH_SETTINGS = {"base_url", "hooks", "tool_servers", "rules_that_allow", "huge_files", "pipes"}


def built(name: str, tmp_path: Path, alarmed: Alarmed, url: str) -> Program:
    REPOSITORIES[name](tmp_path.resolve() / "repo", alarmed.trap)
    return Program(tmp_path, url)


def check_key(requests: list[Asked]) -> None:
    for one in requests:
        assert one.headers["authorization"] == f"Bearer {KEY}"
        assert KEY not in json.dumps(one.json)


@requires("strace")
@pytest.mark.parametrize("name", REPOSITORIES)
async def test_SEC_044_045_046_047_a_run_in_a_hostile_repository_is_an_ordinary_run(
    tmp_path: Path, name: str
) -> None:
    async with trapped(tmp_path) as alarmed, FakeLLM([reply("Hello")]) as server:
        program = built(name, tmp_path, alarmed, server.url)
        traced = await run_traced(program, "exec", "hi")

    if name == "linked_state":
        assert (traced.ran.code, traced.ran.out) == (4, "")
        assert traced.ran.told() == [
            f"{program.repo}/.buddyx is a symbolic link; expected a directory. Remove the link to go on"
        ]
    else:
        assert (traced.ran.code, traced.ran.out) == (0, "Hello\n"), traced.ran.err
        assert (IGNORED in traced.ran.told()) is (name in WITH_SETTINGS)
        check_key(server.requests)
    assert ESC not in traced.ran.err
    assert traced.executed == ()
    assert traced.ports <= {server.port}
    assert traced.sockets == frozenset()
    assert alarmed.silent()


@requires("strace")
@pytest.mark.parametrize("name", REPOSITORIES)
async def test_SEC_045_looking_at_a_hostile_repository_runs_and_asks_nothing(
    tmp_path: Path, name: str
) -> None:
    async with trapped(tmp_path) as alarmed, FakeLLM([]) as server:
        program = built(name, tmp_path, alarmed, server.url)
        for arguments in (
            ("sessions",),
            ("doctor",),
            ("permissions", "test", "ls", "git status", "git log -3", "cat README.md", "cat ./*", "make"),
        ):
            traced = await run_traced(program, *arguments)
            told = name == "linked_state" and arguments == ("doctor",)  # that no session can be kept there
            assert traced.ran.code == int(told), (arguments, traced.ran)
            assert ESC not in traced.ran.out + traced.ran.err
            assert traced.executed == ()
            servers = {*LOCAL_MODEL_SERVERS, server.port}  # the doctor asks the server of the settings, too
            assert traced.ports <= (servers if arguments == ("doctor",) else set())
            assert traced.sockets == frozenset()
    assert server.requests == []
    assert alarmed.silent()


LOOKS: tuple[tuple[str, dict[str, object]], ...] = (
    ("git_status", {}),
    ("git_diff", {}),
    ("git_log", {}),
    ("git_show", {"revision": "HEAD"}),
    ("git_branch", {}),
    ("list_files", {"path": "."}),
    ("find_files", {"pattern": "**/*"}),
    ("grep", {"pattern": "hello"}),
    ("find_definition", {"name": "evil"}),
    ("read_file", {"path": "AGENTS.md"}),
    ("read_file", {"path": "README.md"}),
    ("read_file", {"path": ".git/config"}),
    ("run_shell", {"command": "ls -la"}),
    ("run_shell", {"command": "git status"}),
    ("run_shell", {"command": "git diff"}),
    ("run_shell", {"command": "git log -p -2"}),
    ("run_shell", {"command": "git show HEAD"}),
    ("run_shell", {"command": "cat README.md main.py"}),
    ("run_shell", {"command": "grep hello ./*"}),
    ("run_shell", {"command": "wc -c ./* .env"}),
)


def looking(asked: Asked) -> Reply:
    """A model that looks at everything that may be looked at without a question."""
    if asked.tool_results:
        return reply("Seen.")
    return reply(*(call(name, arguments, call_id=f"c{at}") for at, (name, arguments) in enumerate(LOOKS)))


@pytest.mark.timeout(240)
@requires("strace", "rg")
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REPOSITORIES if name != "linked_state"])
async def test_SEC_051_SEC_063_a_model_that_looks_at_everything_starts_nothing_of_the_repository(
    tmp_path: Path, name: str
) -> None:
    async with trapped(tmp_path) as alarmed, FakeLLM(looking) as server:
        program = built(name, tmp_path, alarmed, server.url)
        traced = await run_traced(program, "exec", "look around")

    # 3: some of the looks need an approval, and nobody is there
    assert (traced.ran.code, traced.ran.out) == (3, "Seen.\n"), traced.ran.err
    assert len(server.requests) == 2
    check_key(server.requests)
    assert ESC not in traced.ran.err
    programs = {Path(path).name for path in traced.executed}
    assert programs <= {"git", "rg", "bash", "ls", "cat", "grep"}
    assert not [path for path in traced.executed if path.startswith(str(program.folder))]
    assert traced.ports <= {server.port}
    assert alarmed.silent()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REPOSITORIES if name != "linked_state"])
async def test_SEC_045_a_terminal_opens_shows_its_state_and_closes(tmp_path: Path, name: str) -> None:
    async with trapped(tmp_path) as alarmed, FakeLLM([]) as server:
        program = built(name, tmp_path, alarmed, server.url)
        async with on_terminal(program) as terminal:
            await terminal.shows("❯")
            await terminal.line("/status")
            await terminal.has_shown("fake-model")
            await terminal.line("/quit")
            await terminal.until(lambda: terminal.process.poll() is not None, "the end")
        assert terminal.process.returncode == 0
        assert b"\x1b]52" not in terminal.output
    assert server.requests == []
    assert alarmed.silent()
