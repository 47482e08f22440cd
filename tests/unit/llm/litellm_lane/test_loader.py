"""litellm's import: in the background, once, quiet, and never in the way."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from buddy.agent.interpreter import SWITCH_S, giving_way
from buddy.agent.provider import ModelRequest, ProviderError
from buddy.llm.litellm_lane.loader import (
    BEFORE_IMPORT,
    FIRST_CALL_MODULES,
    HTTP_HANDLERS,
    LATER_MODULES,
    LitellmLibrary,
)
from buddy.llm.litellm_lane.provider import LitellmProvider, error_of
from tests.support.program import Program

ROOT = Path(__file__).resolve().parents[4]


def module() -> Any:
    return SimpleNamespace(
        ModelResponse=object,
        ModelResponseStream=object,
        AsyncHTTPHandler=type("AsyncHTTPHandler", (), {}),
        HTTPHandler=type("HTTPHandler", (), {"create_client": None}),
    )


class Importer:
    """Stands in for the import: keeps what it was asked for and what the world looked like."""

    def __init__(
        self, environment: dict[str, str], *, failure: Exception | None = None, failing: str = "litellm"
    ) -> None:
        self.environment = environment
        self.failure = failure
        self.failing = failing
        self.asked: list[str] = []
        self.seen: dict[str, Any] = {}
        self.may_go_on = threading.Event()
        self.is_done = threading.Event()

    def __call__(self, name: str) -> Any:
        self.may_go_on.wait(60)
        self.asked.append(name)
        if name == "litellm":
            self.seen = {
                "environment": dict(self.environment),
                "gc": gc.isenabled(),
                "switch_s": sys.getswitchinterval(),
                "daemon": threading.current_thread().daemon,
                "main": threading.current_thread() is threading.main_thread(),
            }
        if name == LATER_MODULES[-1]:
            self.is_done.set()
        if self.failure and name == self.failing:
            raise self.failure
        return module()


@pytest.mark.parametrize("failure", [ImportError("no openai"), ValueError("half installed")])
async def test_what_only_some_requests_need_fails_for_those_alone(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    importer = Importer({}, failure=failure, failing=LATER_MODULES[-1])
    library = LitellmLibrary({}, importer)
    importer.may_go_on.set()
    await library.module()
    for importing in threading.enumerate():
        if importing.name == "import-litellm":
            await asyncio.to_thread(importing.join, 20)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"{LATER_MODULES[-1]} could not be imported ahead")
    ]


def test_a_request_that_cannot_import_what_it_needs_says_so() -> None:
    try:
        try:
            raise ImportError("Missing boto3 to call bedrock. Run 'pip install boto3'.")
        except ImportError as error:
            raise RuntimeError("litellm.APIConnectionError: wrapped") from error
    except RuntimeError as error:
        told = error_of(error, "bedrock", key="", has_begun=False)
    assert (told.kind, told.retryable) == ("bad_request", False)
    assert told.message == (
        "litellm can't import what bedrock needs (Missing boto3 to call bedrock. Run 'pip install boto3'): "
        "install that, or buddy again"
    )


async def no_key() -> str:
    return ""


async def test_it_happens_once_in_a_daemon_thread_with_everything_set_before() -> None:
    environment = {"LITELLM_MODE": "DEV"}
    importer = Importer(environment)
    library = LitellmLibrary(environment, importer)
    assert importer.asked == []
    library.start()
    importer.may_go_on.set()
    first, second = await asyncio.gather(library.module(), library.module())
    assert first is second
    assert await asyncio.to_thread(importer.is_done.wait, 20)
    assert importer.asked == ["litellm", *FIRST_CALL_MODULES, HTTP_HANDLERS, *LATER_MODULES]
    assert importer.seen == {
        # What the person set stays.
        "environment": {**BEFORE_IMPORT, "LITELLM_MODE": "DEV"},
        "gc": False,
        "switch_s": pytest.approx(SWITCH_S),
        "daemon": True,
        "main": False,
    }
    assert gc.isenabled()
    assert (first.suppress_debug_info, first.drop_params, first.disable_token_counter) == (True, True, True)
    assert first.stream_chunk_builder(chunks=[]) is None


def test_whatever_ends_an_import_the_interpreter_changes_hands_as_usual_afterwards() -> None:
    usual = sys.getswitchinterval()
    seen: list[float] = []

    def failing() -> None:
        with giving_way():
            seen.append(sys.getswitchinterval())
            raise ImportError("half installed")

    with pytest.raises(ImportError):
        failing()
    assert seen == [pytest.approx(SWITCH_S)]
    assert sys.getswitchinterval() == usual


async def test_a_cancelled_call_does_not_cancel_the_import() -> None:
    importer = Importer({})
    library = LitellmLibrary({}, importer)
    waiting = asyncio.create_task(library.module())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    importer.may_go_on.set()
    assert await library.module() is await library.module()


@pytest.mark.parametrize("failure", [ImportError("no module named litellm"), ValueError("half installed")])
async def test_a_failed_import_is_told_at_the_first_call(failure: Exception) -> None:
    importer = Importer({}, failure=failure)
    importer.may_go_on.set()
    provider = LitellmProvider(LitellmLibrary({}, importer), key=no_key)
    for _ in range(2):
        with pytest.raises(
            ProviderError, match=f"litellm could not be imported .*{failure}.*reinstall"
        ) as failed:
            await anext(provider.stream(ModelRequest("gemini/x", "", (), ())))
        assert (failed.value.kind, failed.value.retryable) == ("bad_request", False)
    assert gc.isenabled()


def test_its_loggers_reach_only_our_log() -> None:
    logger = logging.getLogger("LiteLLM")
    printed = logging.StreamHandler()
    logger.addHandler(printed)
    importer = Importer({})
    importer.may_go_on.set()
    asyncio.run(LitellmLibrary({}, importer).module())
    assert printed not in logger.handlers
    assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]
    assert logger.propagate
    logger.removeHandler(logger.handlers[0])


REAL = """
import asyncio, os, socket
tried = []
connect = socket.socket.connect
def refuse(self, address):
    if isinstance(address, tuple):
        tried.append(address)
        raise OSError("no network in this test")
    return connect(self, address)
socket.socket.connect = refuse
import sys
from buddy.llm.litellm_lane.loader import LitellmLibrary
assert "litellm" not in sys.modules
asyncio.run(LitellmLibrary().module())
assert "litellm" in sys.modules and "mcp" in sys.modules
assert tried == [], tried
assert "PLANTED" not in os.environ
assert os.environ["LITELLM_MODE"] == "PRODUCTION"
"""


@pytest.mark.slow
def test_the_real_import_reads_no_env_file_touches_no_network_and_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PLANTED=yes\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LITELLM")}
    done = subprocess.run(
        [sys.executable, "-c", REAL],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_lane_itself_imports_nothing_heavy() -> None:
    code = (
        "import sys; import buddy.llm.litellm_lane.provider; "
        "print([m for m in ('litellm', 'httpx', 'openai', 'pydantic', 'mcp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
async def test_a_run_that_fails_while_the_import_goes_on_still_ends(tmp_path: Path) -> None:
    program = Program(
        tmp_path,
        "http://127.0.0.1:9",
        lane="litellm-chat",
        settings={"network": {"tries": 1, "unattended_tries": 1}},
    )
    ran = await program.run("exec", "hi")
    assert ran.code == 75
    assert [line.partition(".  ")[0] for line in ran.told()] == [
        "127.0.0.1:9 refuses connections; is the server up, is base_url right?"
    ]
