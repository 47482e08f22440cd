"""Everything that can be wrong around `buddy exec`: each is one clear sentence on stderr and the right exit
code, and the session stays whole."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from buddy.agent.messages import AssistantMessage, ToolMessage, text_of
from buddy.sessions.identity import load_signer
from buddy.sessions.store import SessionStore
from tests.capabilities import requires
from tests.fake_llm.script import (
    Cut,
    Empty,
    ErrorEvent,
    Html,
    HttpError,
    Pings,
    Reset,
    Stall,
    call,
    reply,
)
from tests.fake_llm.server import FakeLLM
from tests.support.poor_environments import POOR_ENVIRONMENTS
from tests.support.program import DIRECT, YOLO, Program, Ran

TOOLS = ("read_file", "write_file", "edit_file", "run_shell")
ONCE = {"network": {"tries": 1, "unattended_tries": 1}}


def program_of(
    tmp_path: Path, url: str, lane: str = "chat", settings: Mapping[str, Any] | None = None, **variables: str
) -> Program:
    program = Program(tmp_path, url, lane, TOOLS, settings or {}, variables)
    program.files(a__txt="alpha\n")
    return program


def said(ran: Ran, code: int) -> str:
    """The one sentence; no traceback, nothing on stdout."""
    assert (ran.code, ran.out) == (code, ""), ran.err
    assert "Traceback" not in ran.err
    lines = ran.told()
    assert len(lines) == 1, ran.err
    return lines[0]


# --- settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[api\nmodel = 3", "buddy.toml: line 1 is not valid TOML: "),
        ("[api]\nmodle = 'x'", "buddy.toml: [api] unknown name 'modle'; did you mean 'model'?"),
        ("[apy]\nmodel = 'x'", "buddy.toml: unknown name 'apy'; did you mean 'api'?"),
        ("[api]\nmodel = 3", "buddy.toml: [api] model: expected text, found 3"),
        ("[api]\nlane = 'fast'", "buddy.toml: [api] lane: expected auto, direct or litellm, found 'fast'"),
        ("api = 'x'", "buddy.toml: [api] must be a table, found str"),
        (
            "[network]\ntries = 'six'",
            "buddy.toml: [network] tries: expected a whole number from 1 to 1,000,000, found text",
        ),
        ("models = 5", "buddy.toml: [models] must be a table, found int"),
        ("[models]\nfast = 5", "buddy.toml: [models.fast]"),
        ("mcp_servers = 5", "buddy.toml: [mcp_servers] must be a table, found int"),
        ("\xff\xfe", "buddy.toml: not UTF-8 text"),
    ],
)
async def test_settings_that_cannot_be_used_are_named_with_their_file(
    tmp_path: Path, text: str, words: str
) -> None:
    program = program_of(tmp_path, "http://127.0.0.1:9")
    (program.config / "buddy.toml").write_bytes(text.encode("latin-1"))
    assert words in said(await program.run("exec", "hi"), 4)
    assert program.sessions() == []


async def test_a_settings_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    program = program_of(tmp_path, "http://127.0.0.1:9")
    line = said(await program.run("exec", "hi", "--config", "nowhere.toml"), 4)
    assert line == "nowhere.toml: there is no such file; give --config an existing one"


async def test_a_variable_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    program = program_of(tmp_path, "http://127.0.0.1:9", BUDDY_NETWORK_TRIES="many")
    line = said(await program.run("exec", "hi"), 4)
    assert line == "BUDDY_NETWORK_TRIES: expected a whole number from 1 to 1,000,000, found 'many'"


async def test_no_model_is_said_with_what_to_do(tmp_path: Path) -> None:
    program = program_of(tmp_path, "http://127.0.0.1:9")
    (program.config / "buddy.toml").unlink()
    assert said(await program.run("exec", "hi"), 4).startswith(
        "no model is chosen: start with buddy -m anthropic/claude-sonnet-5-5"
    )


async def test_an_unknown_model_is_said_with_near_names(tmp_path: Path) -> None:
    program = program_of(tmp_path, "http://127.0.0.1:9", settings={"api": {"base_url": ""}})
    line = said(await program.run("exec", "hi", "-m", "gpt-4oo"), 4)
    assert line.startswith("unknown model 'gpt-4oo': expected provider/model")
    assert "gpt-4o" in line.split("near names")[1]
    assert program.sessions() == []


@pytest.mark.parametrize("lane", DIRECT)
async def test_a_missing_key_is_said_before_anything_is_sent(tmp_path: Path, lane: str) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url, lane, FAKE_LLM_KEY="")
        line = said(await program.run("exec", "hi"), 4)
    assert "FAKE_LLM_KEY" in line
    assert server.requests == []


@pytest.mark.parametrize(
    ("profile", "place"),
    [
        ({"api_key": "sk-secret-1"}, "the key was not accepted; check api_key in buddy.toml"),
        (
            {"api_key_command": "echo sk-secret-2"},
            "the key was not accepted; check the output of api_key_command",
        ),
        ({"api_key_file": "~/key"}, "the key was not accepted; check the key file {home}/key"),
        ({"api_key_env": ""}, "no key was sent; run `buddy login`, or set api_key_env"),
    ],
)
@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_is_refused_is_named_by_its_place(
    tmp_path: Path, status: int, profile: dict[str, str], place: str
) -> None:
    async with FakeLLM([reply("never", fault=HttpError(status))]) as server:
        program = program_of(tmp_path, server.url, settings={"api": profile})
        key = program.home / "key"
        key.write_text("sk-secret-3")
        key.chmod(0o600)
        line = said(await program.run("exec", "hi"), 4)
    told = place.format(home=program.home)
    if status == 403:
        told = told.replace("the key was not accepted", "this key may not use this model")
    assert f"answered {status} ({told}" in line
    assert "sk-secret" not in line


# --- the provider -----------------------------------------------------------------------------------------


GATEWAY = HttpError(502, {"content-type": "text/html"}, "<html><body><h1>Bad gateway</h1>")
NO_QUOTA = HttpError(429, body={"error": {"code": "insufficient_quota", "message": "no quota"}})


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (
            HttpError(401),
            4,
            "answered 401 (the key was not accepted; check the environment variable FAKE_LLM_KEY)",
        ),
        (HttpError(403), 4, "answered 403"),
        (HttpError(404), 4, "answered 404 (no such model or address; check the profile's model"),
        (HttpError(422), 1, "answered 422 (the request was refused)"),
        (HttpError(429), 75, "answered 429 (too many requests)"),
        (HttpError(500), 75, "answered 500 (server error)"),
        (GATEWAY, 75, "answered 502"),
        (NO_QUOTA, 1, "no credit or quota"),
        (Html(), 75, "web page"),
        (Empty(), 75, ""),
        (ErrorEvent(after=0, message="the engine is on fire"), 75, "the engine is on fire"),
        (Reset(after=-1), 75, "broke while the answer arrived"),
    ],
)
@pytest.mark.parametrize("lane", DIRECT)
async def test_REL_035_REL_038_a_provider_that_refuses_is_one_sentence(
    tmp_path: Path, lane: str, fault: Any, code: int, words: str
) -> None:
    async with FakeLLM([reply("never", fault=fault), reply("Now it works.")]) as server:
        program = program_of(tmp_path, server.url, lane, ONCE)
        line = said(await program.run("exec", "hi"), code)
        assert words in line
        assert "<" not in line
        again = await program.run("exec", "--continue")
    assert (again.code, again.out) == (0, "Now it works.\n")
    assert await program.prompts() == ["hi"]


@pytest.mark.parametrize("lane", DIRECT)
async def test_REL_033_a_rate_limit_is_waited_for_and_the_wait_is_shown(tmp_path: Path, lane: str) -> None:
    busy = reply("", fault=HttpError(429, {"retry-after": "1"}))
    async with FakeLLM([busy, reply("Let in.")]) as server:
        program = program_of(tmp_path, server.url, lane)
        ran = await program.run("exec", "hi")
    assert (ran.code, ran.out) == (0, "Let in.\n")
    assert "(too many requests): scripted error 429; trying again in 1 s (up to 3 tries)" in ran.err
    first, second = server.requests
    assert second.at - first.ended_at > 0.9
    assert first.json == second.json


async def test_REL_033_a_wait_nobody_would_want_is_not_waited(tmp_path: Path) -> None:
    async with FakeLLM([reply("", fault=HttpError(429, {"retry-after": "86400"}))]) as server:
        program = program_of(tmp_path, server.url)
        line = said(await program.run("exec", "hi"), 75)
    assert line.endswith("The provider asks to wait 86,400 s; retry then, or use another model.")
    assert len(server.requests) == 1


async def test_an_unreachable_server_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        program = program_of(tmp_path, f"http://{address}", settings=ONCE)
        line = said(await program.run("exec", "hi"), 75)
    told = f"{address} refuses connections; is the server up, is base_url right?"
    assert line == told
    assert await program.prompts() == ["hi"]


async def test_a_name_that_cannot_be_resolved_is_said(tmp_path: Path) -> None:
    settings = {**ONCE, "api": {"base_url": "http://no-such-host.invalid/v1"}}
    program = program_of(tmp_path, "http://127.0.0.1:9", settings=settings)
    line = said(await program.run("exec", "hi"), 75)
    assert "no-such-host.invalid" in line


async def test_a_proxy_that_is_down_is_said(tmp_path: Path) -> None:
    settings = {**ONCE, "api": {"base_url": "http://model.invalid/v1"}}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        proxy = f"http://127.0.0.1:{taken.getsockname()[1]}"
        program = program_of(
            tmp_path, "http://127.0.0.1:9", settings=settings, HTTP_PROXY=proxy, http_proxy=proxy
        )
        line = said(await program.run("exec", "hi"), 75)
    assert "through the proxy" in line


def limits(first_token_s: float = 60, idle_s: float = 60, content_s: float = 60) -> dict[str, Any]:
    """Only what is to fire fires: a slow machine meets no other limit first."""
    times = {"first_token_s": first_token_s, "idle_s": idle_s, "content_s": content_s}
    return {"network": {"tries": 1, "unattended_tries": 1, **times}}


BREAKS = {
    Stall(after=2): limits(idle_s=0.6),
    Reset(after=2): limits(),
    Cut(after=2): limits(),
    Pings(after=2, every_s=0.05): limits(first_token_s=5, content_s=5),
}


@pytest.mark.parametrize("fault", BREAKS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("lane", DIRECT)
async def test_REL_025_REL_027_an_answer_that_breaks_off_is_kept_and_continued(
    tmp_path: Path, lane: str, fault: Any
) -> None:
    script = [reply("one two three four five six", fault=fault), reply("and seven")]
    async with FakeLLM(script) as server:
        program = program_of(tmp_path, server.url, lane, BREAKS[fault])
        ran = await program.run("exec", "Count")
        assert ran.code == 75, ran.err
        (line,) = ran.told()
        assert line.startswith("the answer broke off: ")
        assert line.endswith("What arrived is kept.")
        broken = (await program.history())[-1]
        again = await program.run("exec", "--continue")
    assert isinstance(broken, AssistantMessage)
    assert broken.finish == "cut"
    assert "one two three four five six".startswith(text_of(broken))
    assert ran.out == text_of(broken).strip("\n") + "\n", "what arrived is what was written"
    assert (again.code, again.out) == (0, "and seven\n")
    assert ("assistant", text_of(broken)) in server.requests[1].turns


@pytest.mark.parametrize("lane", DIRECT)
async def test_REL_025_a_server_that_never_answers_is_given_up(tmp_path: Path, lane: str) -> None:
    async with FakeLLM([reply("late", fault=Stall(after=-1))]) as server:
        program = program_of(tmp_path, server.url, lane, limits(first_token_s=0.6))
        line = said(await program.run("exec", "hi"), 75)
    assert "0.6 s" in line


# --- what models do ---------------------------------------------------------------------------------------


async def answered(
    tmp_path: Path, *calls: Any, lane: str = "chat", prepare: Callable[[Program], None] = lambda _: None
) -> list[str]:
    """Return the results the model got for its calls; the run continues and completes."""
    async with FakeLLM([reply(*calls), reply("I see.")]) as server:
        program = program_of(tmp_path, server.url, lane)
        prepare(program)
        ran = await program.run("exec", *YOLO, "Work")
    assert (ran.code, ran.out) == (0, "I see.\n"), ran.err
    assert "Traceback" not in ran.err
    await program.history()
    return server.requests[1].tool_results


@pytest.mark.parametrize("lane", DIRECT)
async def test_SEC_099_tools_nobody_has_are_told(tmp_path: Path, lane: str) -> None:
    names = ["constructor", "__class__", "read_fil", "x" * 10_000]
    found = await answered(
        tmp_path,
        call("read_file", path="a.txt"),
        *(call(name, path="a.txt") for name in names[:3]),
        lane=lane,
    )
    assert all(text.startswith("there is no tool named ") for text in found[1:])
    assert "Did you mean read_file?" in found[3]
    (tmp_path / "long").mkdir()
    (long,) = await answered(tmp_path / "long", call(names[3]), lane=lane)
    assert len(long) < 400


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"path": "a.txt"', "not valid JSON"),
        ('{"path": "a.txt"}}', "not valid JSON"),
        ('{"path": "a.txt",}', "not valid JSON"),
        ("{'path': 'a.txt'}", "not valid JSON"),
        ('["a.txt"]', "expected one JSON object with path (required)"),
        ('"a.txt"', "expected one JSON object with path (required)"),
        ('{"path": "a.txt", "path": "b.txt"}', "key 'path' is given twice"),
        ('{"path": ["a.txt"]}', "Expected `str`, got `array`"),
        ('{"path": null}', "Expected `str`, got `null`"),
        ('{"path": 5}', "Expected `str`, got `int`"),
        ('{"path": "a.txt", "colour": "red"}', "unknown argument 'colour'"),
        ('{"path": "a.txt", "offset": NaN}', "NaN is not JSON"),
        ('{"path": "a.txt", "offset": ' + "9" * 5000 + "}", "not acceptable JSON"),
        ('{"path": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested deeper than 64 levels"),
        ("{}", "`path`"),
    ],
    ids=range(15),
)
async def test_SEC_098_REL_029_arguments_no_tool_can_take_are_told(
    tmp_path: Path, arguments: str, words: str
) -> None:
    (found,) = await answered(tmp_path, call("read_file", arguments))
    assert words in found
    assert len(found) < 500


async def test_arguments_in_other_words_are_understood(tmp_path: Path) -> None:
    found = await answered(
        tmp_path,
        call("read_file", '{"file_path": "a.txt", "limit": "5"}'),
        call("edit_file", {"path": "a.txt", "edits": [{"old_string": "alpha", "new_string": "beta"}]}),
        call("bash", {"cmd": "cat a.txt"}),
    )
    assert "alpha" in found[0]
    assert "+1 −1" in found[1]
    assert found[2].startswith("beta\n")


async def test_REL_030_two_calls_with_one_id_are_both_answered(tmp_path: Path) -> None:
    calls = [call("read_file", path=name, call_id="same") for name in ("a.txt", "b.txt")]
    found = await answered(tmp_path, *calls)
    assert "alpha" in found[0]
    assert "b.txt does not exist" in found[1]


async def test_REL_029_a_model_that_never_learns_is_stopped(tmp_path: Path) -> None:
    async with FakeLLM([reply(call("read_file", "{"))] * 9) as server:
        program = program_of(tmp_path, server.url)
        line = said(await program.run("exec", *YOLO, "Work"), 1)
    assert line == "the model keeps sending calls no tool can take"
    assert len(server.requests) == 4


async def test_REL_039_a_model_that_goes_round_in_circles_is_stopped(tmp_path: Path) -> None:
    async with FakeLLM([reply(call("run_shell", command="sleep 0.0$RANDOM; echo failed"))] * 9) as server:
        program = program_of(tmp_path, server.url)
        line = said(await program.run("exec", *YOLO, "Work"), 1)
    assert line.startswith("the model goes round in circles: run_shell")
    assert len(server.requests) == 5
    assert "3 times in a row" in server.requests[3].tool_results[-1]


async def test_REL_032_an_empty_answer_is_asked_again_once(tmp_path: Path) -> None:
    async with FakeLLM([reply(" \n"), reply("")]) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("exec", "hi")
    assert (ran.code, ran.out.strip(), ran.told()) == (1, "", ["the model answered with nothing, twice"])
    assert len(server.requests) == 2


async def test_REL_031_an_answer_cut_at_its_limit_is_told(tmp_path: Path) -> None:
    async with FakeLLM([reply("I ran out of", finish="length")]) as server:
        ran = await program_of(tmp_path, server.url).run("exec", "hi")
    assert (ran.code, ran.out) == (0, "I ran out of\n")
    assert "warning: the reply reached its output limit and may be incomplete" in ran.err


async def test_REL_031_a_content_filter_is_told(tmp_path: Path) -> None:
    async with FakeLLM([reply("I can", finish="content_filter")]) as server:
        ran = await program_of(tmp_path, server.url).run("exec", "hi")
    assert (ran.code, ran.told()) == (1, ["the provider's content filter stopped the reply"])


# --- what tools meet --------------------------------------------------------------------------------------


async def test_binary_output_and_ten_megabytes_are_bounded(tmp_path: Path) -> None:
    found = await answered(
        tmp_path,
        call("run_shell", command=r"printf 'a\0b\377\033[31mred\033[0m\n'; head -c 3000 /dev/urandom"),
        call("run_shell", command="yes 0123456789abcdef | head -c 10000000"),
        call("run_shell", command="head -c 10000000 /dev/zero | tr '\\0' x"),
    )
    assert "red" in found[0]
    assert "[31mred" in found[0], "the model reads what was written; screens get it cleaned"
    assert all(len(text) < 140_000 for text in found)
    assert all("exit code 0" in text for text in found)


async def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    def prepare(program: Program) -> None:
        os.mkfifo(program.repo / "pipe")
        (program.repo / "loop").symlink_to("loop")
        (program.repo / "binary.bin").write_bytes(bytes(range(256)) * 50)
        (program.repo / "large.txt").write_text("0123456789\n" * 1_000_000)

    names = ["pipe", "loop", "binary.bin", "large.txt", "nothing.txt", "a.txt/b", "x" * 300, "nul\0"]
    found = await answered(tmp_path, *(call("read_file", path=name) for name in names), prepare=prepare)
    assert all(len(text) < 60_000 for text in found)
    assert "regular" in found[0] or "pipe" in found[0]
    assert "binary" in found[2]
    assert "1000000" in found[3].replace(",", "")
    assert "does not exist" in found[4]


# --- where it runs ----------------------------------------------------------------------------------------


def bound(program: Program) -> Program:
    """A program whose program is bound by permissions, as root is not."""
    if os.geteuid() == 0:
        program.before = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    return program


@requires("setpriv")
async def test_a_file_without_permission_is_told(tmp_path: Path) -> None:
    calls = [call("read_file", path="private.txt"), call("write_file", path="closed/new.txt", content="x")]
    async with FakeLLM([reply(*calls), reply("I see.")]) as server:
        program = bound(program_of(tmp_path, server.url))
        (program.repo / "private.txt").write_text("x")
        (program.repo / "private.txt").chmod(0)
        (program.repo / "closed").mkdir()
        (program.repo / "closed").chmod(0o500)
        ran = await program.run("exec", "--permission-mode", "edit", "Work")
        (program.repo / "closed").chmod(0o700)
    assert (ran.code, ran.out) == (0, "I see.\n"), ran.err
    read, written = server.requests[1].tool_results
    assert "ermission denied" in read
    assert "ermission denied" in written
    assert not (program.repo / "closed" / "new.txt").exists()


@requires("setpriv")
async def test_REL_007_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = bound(program_of(tmp_path, server.url))
        program.repo.chmod(0o500)
        ran = await program.run("exec", "hi")
        program.repo.chmod(0o700)
    told = said(ran, 4)
    assert "ermission denied" in told
    assert "BUDDY_SESSION_DIRECTORY" in told
    assert server.requests == []


async def test_a_workspace_file_where_the_folder_should_be_is_said(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        (program.repo / ".buddyx").write_text("not a folder")
        ran = await program.run("exec", "hi")
    assert (ran.code in (2, 4), server.requests) == (True, [])
    assert len(ran.told()) == 1
    assert ".buddyx" in ran.err


@requires("unshare")
async def test_REL_004_a_full_disk_is_said_and_what_was_saved_stays(tmp_path: Path) -> None:
    """The session lies on a disk of 64 kB that the first big file read fills."""
    async with FakeLLM([reply(call("read_file", path="big.txt")), reply("ok"), reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        disk, copy = program.folder / "disk", program.folder / "copy"
        disk.mkdir()
        program.configure({"session": {"directory": str(disk)}})
        (program.repo / "big.txt").write_text("0123456789 abcdefghij\n" * 4_000)
        script = (
            f"mount -t tmpfs -o size=64k none {disk} && {sys.executable} -m buddy exec Read; code=$?;"
            f" cp -r {disk}/. {copy}; exit $code"
        )
        process = await asyncio.create_subprocess_exec(
            "unshare", "-rm", "sh", "-c", script, cwd=program.repo, env=program.variables(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate()
    text = err.decode()
    assert "Traceback" not in text
    assert "NOT SAVED" in text
    assert "No space left" in text
    assert process.returncode == 1, (out, text)
    signer = load_signer(str(program.home / ".local/state/buddy"))
    store = SessionStore(str(copy), signer, workspace=str(program.repo))
    session = await store.open("last")
    history = session.loaded.tasks[0].record.history
    await session.close()
    assert [text_of(one) for one in history][:1] == ["Read"]


async def test_REL_005_a_limit_of_file_sizes_is_said_and_what_was_saved_stays(tmp_path: Path) -> None:
    async with FakeLLM([reply(call("read_file", path="big.txt")), reply("ok"), reply("Again.")]) as server:
        program = program_of(tmp_path, server.url)
        (program.repo / "big.txt").write_text("0123456789 abcdefghij\n" * 4_000)
        ran = await program.run(
            "exec", "Read", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (32_000, 32_000))
        )
        assert ran.code == 1, ran
        assert "NOT SAVED" in ran.err
        assert "Traceback" not in ran.err
        assert await program.prompts() == ["Read"]
        again = await program.run("exec", "--continue")
    assert again.code == 0, again.err


async def test_REL_062_a_working_directory_that_is_gone_is_said(tmp_path: Path) -> None:
    program = program_of(tmp_path, "http://127.0.0.1:9")
    gone = program.folder / "gone"
    gone.mkdir()
    script = f'rmdir "{gone}" && exec "{sys.executable}" -m buddy exec hi'
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", script, cwd=gone, env=program.variables(),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode is not None
    line = said(Ran(process.returncode, out.decode(), err.decode()), 2)
    assert line == "the working directory no longer exists; change to another one and start again"


@pytest.mark.parametrize(
    "variables",
    [*POOR_ENVIRONMENTS, {"TERM": "dumb", "COLUMNS": "0", "LINES": "nonsense"}],
    ids=str,
)
async def test_REL_062_REL_063_a_poor_environment_still_works(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    async with FakeLLM([reply(call("read_file", path="a.txt")), reply("Größe: 5 → 日本 🎉")]) as server:
        program = program_of(tmp_path, server.url)
        program.environment = variables
        arguments = ["--config", str(program.config / "buddy.toml")]
        ran = await program.run("exec", *arguments, "Größe → 日本?")
    assert (ran.code, ran.out) == (0, "Größe: 5 → 日本 🎉\n"), ran.err
    assert "Traceback" not in ran.err
    assert server.requests[0].last_user_text == "Größe → 日本?"
    assert "alpha" in server.requests[1].tool_results[0]


async def test_REL_062_a_home_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    program = program_of(tmp_path, "http://127.0.0.1:9", HOME="/proc/nowhere")
    line = said(await program.run("exec", "--config", str(program.config / "buddy.toml"), "hi"), 4)
    assert line.startswith("/proc/nowhere")


# --- its own streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "json", "stream-json", "sse"])
async def test_REL_059_a_reader_that_left_ends_the_run_quietly(tmp_path: Path, form: str) -> None:
    async with FakeLLM([reply(call("read_file", path="a.txt")), reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        reading, writing = os.pipe()
        os.close(reading)
        ran = await program.run("exec", "--output-format", form, "hi", stdout=writing)
        os.close(writing)
    assert ran.code == 141
    assert "Traceback" not in ran.err
    assert "Exception" not in ran.err
    if form in ("stream-json", "sse"):
        assert server.requests == [], "nothing is asked when nobody hears that it began"
    else:
        assert await program.prompts() == ["hi"]


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
async def test_streams_that_are_closed_are_no_crash(tmp_path: Path, closed: str) -> None:
    async with FakeLLM([reply(call("write_file", path="new.txt", content="x")), reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        script = f'exec "{sys.executable}" -m buddy exec --permission-mode edit Work {closed}'
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", script, cwd=program.repo, env=program.variables(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        _out, err = await process.communicate()
    assert (process.returncode, "Traceback" in err.decode()) == (0, False), err.decode()
    assert (program.repo / "new.txt").read_text() == "x", "a session file never became a standard stream"
    assert [type(one) for one in await program.history()].count(ToolMessage) == 1


async def test_a_slow_reader_loses_nothing(tmp_path: Path) -> None:
    text = "0123456789" * 60_000
    async with FakeLLM([reply(text, chars=2000)]) as server:
        program = program_of(tmp_path, server.url)
        process = await program.start(
            "exec", "--output-format", "stream-json", "--include-partial-messages", "hi"
        )
        await server.arrived(1)
        out, err = await process.communicate()
    found = [json.loads(line) for line in out.decode().splitlines()]
    events = [one["event"] for one in found if one["type"] == "stream_event"]
    deltas = [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
    assert (process.returncode, "".join(deltas) == text) == (0, True), err.decode()


async def test_where_the_key_of_sessions_cannot_be_it_is_said_what_helps(tmp_path: Path) -> None:
    async with FakeLLM([reply("Here.")]) as server:
        program = program_of(tmp_path, server.url)
        state = program.home / ".local/state"
        state.parent.mkdir(parents=True)
        state.write_text("no folder")
        ran = await program.run("exec", "hi")
        assert (ran.code, ran.out) == (4, "")
        assert "the key that signs sessions can't be made there; set XDG_STATE_HOME" in ran.err
        elsewhere = {**program.variables(), "XDG_STATE_HOME": str(tmp_path / "elsewhere")}
        assert (await program.run("exec", "hi", env=elsewhere)).out == "Here.\n"
        (tmp_path / "elsewhere/buddy/session.key").write_bytes(b"short")
        ran = await program.run("exec", "hi", env=elsewhere)
        assert (ran.code, ran.out) == (4, "")
        assert "expected 32 bytes in " in ran.err
        assert "None" not in ran.err
