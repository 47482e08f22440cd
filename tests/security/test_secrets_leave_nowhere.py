"""Secrets in what the person says, the model says, tools read and commands print: what a run leaves behind
has none."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from buddy.safety.secrets.redact import redact
from buddy.sessions.export import export_session
from tests.fake_llm.script import Reply, Stall, call, reply, think
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program, running
from tests.support.secrets_for_tests import SHAPED
from tests.support.secrets_published import IN_PLACE, SERVICE_ACCOUNT, WHOLE
from tests.support.waiting import until

SECRETS = {**SHAPED, **{f"published {name}": text for name, text in WHOLE.items()}}
PLACED = [form.format(secret) for form, secret in IN_PLACE.values()]
EVERYTHING = "\n".join([*SECRETS.values(), *PLACED, SERVICE_ACCOUNT])
OWN = "an-own-key-without-any-shape"


def found(text: str) -> set[str]:
    """The names of the secrets in a text, also where it is JSON."""
    seen = {
        name
        for name, secret in SECRETS.items()
        for line in secret.split("\n")
        if len(line) > 15 and line in text
    }
    forms = {name: {secret, json.dumps(secret)[1:-1]} for name, (_form, secret) in IN_PLACE.items()}
    seen |= {name for name, both in forms.items() if any(form in text for form in both)}
    return seen | ({"own"} if OWN in text else set())


def left_behind(program: Program) -> dict[str, set[str]]:
    """Every file of buddy's with a secret in it, but the copies of the person's own files that undo needs."""
    files = [
        path
        for folder in (program.repo / ".buddyx", program.home)
        for path in folder.rglob("*")
        if path.is_file()
    ]
    assert len(files) > 3
    names = {path: found(path.read_text(errors="replace")) for path in files if "undo" not in path.parts}
    return {str(path.relative_to(program.folder)): names[path] for path in names if names[path]}


@pytest.mark.parametrize("output", ["text", "json", "stream-json", "sse"])
async def test_SEC_088_nothing_a_run_leaves_behind_or_sends_back_holds_a_secret(
    tmp_path: Path, output: str
) -> None:
    script: list[Reply] = [
        reply(
            think(f"I see {EVERYTHING}"),
            EVERYTHING,
            call("read_file", path="notes.txt", call_id="a"),
            call("run_shell", command="cat notes.txt big.txt notes.txt", call_id="b"),
            call("write_file", path="copy.txt", content=EVERYTHING, call_id="c"),
            call("run_shell", command=f"echo {WHOLE['GitHub classic']}", call_id="d"),
            call("run_shell", command="env", call_id="e"),
            call("grep", pattern="KEY", call_id="f"),
            call("write_file", f'{{"path": "{SHAPED["Anthropic"]}"', call_id="g"),
            chars=97,
        ),
        reply(EVERYTHING, OWN, chars=13),
    ]
    async with FakeLLM(script) as server:
        program = Program(
            tmp_path, server.url, environment={"FAKE_LLM_KEY": OWN, "OPENAI_API_KEY": SHAPED["OpenAI"]}
        )
        program.files(notes__txt=f"{EVERYTHING}\n{OWN}\n", big__txt="plain words of a build\n" * 20_000)
        ran = await program.run(
            *(
                "exec",
                "--allow",
                "Bash(env)",
                "--permission-mode",
                "edit",
                "--debug",
                "--output-format",
                output,
            ),
            *(("--include-partial-messages",) if output == "stream-json" else ()),
            f"My keys are:\n{EVERYTHING}\n{OWN}",
        )
        sent = json.dumps(server.requests[-1].json, ensure_ascii=False)

    assert ran.code == 0, ran.err
    assert left_behind(program) == {}
    assert list((program.repo / ".buddyx").rglob("*.out")) != []
    results = [one["content"] for one in json.loads(sent)["messages"] if one["role"] == "tool"]
    assert set().union(*map(found, results)) == set()
    session = await program.store().open("last")
    for form in ("markdown", "html", "json"):
        assert found(export_session(session.loaded.state, form, redact)) == set()
    await session.close()


def cleaned(program: Program) -> int:
    """Count the redactions in the sessions' folder."""
    files = (program.repo / ".buddyx").rglob("*")
    return sum(path.read_text(errors="replace").count("redacted: ") for path in files if path.is_file())


@pytest.mark.parametrize("count", [1, 3, 12])
async def test_SEC_088_a_run_that_is_killed_in_the_middle_of_a_secret_leaves_none(
    tmp_path: Path, count: int
) -> None:
    chars = sum(len(secret) + 1 for secret in SECRETS.values())
    half = Stall(after=chars // 5 // 2)  # however late the program is killed, there is no whole answer
    script = [reply(*(f"{secret}\n" for secret in SECRETS.values()), chars=5, delay_s=0.002, fault=half)]
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url)
        async with running(program, "exec", "--debug", f"My key is {SHAPED['OpenAI']}") as process:
            await until(lambda: cleaned(program) >= count)
            process.kill()
            assert await process.wait() == -signal.SIGKILL
    assert left_behind(program) == {}
    assert 0 < cleaned(program) < len(SECRETS)
