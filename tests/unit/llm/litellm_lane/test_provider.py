"""The litellm lane over real HTTP: the direct lanes' pieces, requests compared whole, every failure a
`ProviderError` of the right kind. Importing litellm takes seconds, so its tests stand in few modules."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from buddy.agent.messages import (
    AssistantMessage,
    Call,
    Image,
    Message,
    Text,
    Thinking,
    ToolMessage,
    Usage,
    UserMessage,
    calls_of,
    text_of,
    thinking_of,
)
from buddy.agent.provider import (
    ErrorKind,
    Finished,
    ModelDelta,
    ModelRequest,
    ProviderError,
    TextPiece,
    ToolDefinition,
)
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.llm.keys import KeyMissingError
from buddy.llm.litellm_lane.loader import LitellmLibrary
from buddy.llm.litellm_lane.provider import LitellmProvider, error_of
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import (
    CleanEnd,
    Cut,
    ErrorEvent,
    Fault,
    Html,
    Part,
    Reset,
    Stall,
    Tokens,
    call,
    failure,
    reply,
    think,
)
from tests.fake_llm.server import FakeLLM

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore::UserWarning:pydantic"),
]

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "litellm_requests"
KEY = "sk-test-0123456789"
TOOLS = (
    ToolDefinition(
        "read_file",
        "Read a file.",
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    ),
)
APIS = {
    # api → model, path behind the server's address, the catalogue's word
    "chat": ("openai/gpt-4o", "/v1", "chat"),
    "responses": ("openai/gpt-5.2-pro", "/v1", "responses"),
    "anthropic": ("anthropic/claude-sonnet-4-5", "", "chat"),
    "gemini": ("gemini/gemini-2.5-pro", "/v1beta", "chat"),
}
QUESTION = UserMessage("u1", (Text("hi"),), "prompt")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library() -> AsyncIterator[LitellmLibrary]:
    """One import and one event loop for all tests here: litellm keeps its HTTP clients by loop."""
    library = LitellmLibrary()
    yield library
    module = await library.module()
    await module.close_litellm_async_clients()
    for _ in range(3):
        await asyncio.sleep(0)


async def test_key() -> str:
    return KEY


test_key.__test__ = False


class Lane:
    """One api of the lane against one server."""

    def __init__(self, library: LitellmLibrary, server: FakeLLM, api: str, **options: Any) -> None:
        self.model, path, word = APIS[api]
        self.server = server
        self.provider = LitellmProvider(
            library,
            key=test_key,
            base_url=server.url + path,
            api="responses" if word == "responses" else "chat",
            **options,
        )

    def request(self, *history: Message, **fields: Any) -> ModelRequest:
        given = {"system": "Be brief.", "tools": TOOLS, **fields}
        return ModelRequest(model=self.model, history=history or (QUESTION,), **given)

    async def pieces(self, *history: Message, **fields: Any) -> list[ModelDelta]:
        return [delta async for delta in self.provider.stream(self.request(*history, **fields))]

    async def message(self, *history: Message, **fields: Any) -> AssistantMessage:
        assembler = ReplyAssembler(f"r{len(self.server.requests)}", self.model, self.provider.lane)
        for delta in await self.pieces(*history, **fields):
            assembler.feed(delta)
        return assembler.finish()

    async def error(self, *history: Message) -> ProviderError:
        with pytest.raises(ProviderError) as failed:
            await self.message(*history)
        return failed.value


def check_golden(name: str, asked: list[Asked]) -> None:
    """Compare request bodies with the file of this name; UPDATE_GOLDEN=1 writes it."""
    found = json.dumps([one.json for one in asked], indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    path = GOLDEN / f"{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found)
    assert json.loads(path.read_text()) == json.loads(found)


def results(message: AssistantMessage) -> list[ToolMessage]:
    return [
        ToolMessage(f"t-{one.id}", one.id, one.name, f"content of {one.arguments}", "ok")
        for one in calls_of(message)
    ]


# --- the same reply on every api ---


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("fragmentation", ["frames", "byte", "random"])
async def test_a_reply_is_assembled_whole(library: LitellmLibrary, api: str, fragmentation: Any) -> None:
    parts = (
        think("Grübeln über 🎉"),
        "Ich lese beide Dateien. Größe?",
        call("read_file", path="ä.py", call_id="c1"),
        call("read_file", path="b.py", call_id="c2"),
    )
    spent = Tokens(100, 50, cache_read=20, reasoning=5)
    async with FakeLLM([reply(*parts, chars=3, usage=spent, fragmentation=fragmentation)]) as server:
        message = await Lane(library, server, api).message()
    assert [type(part) for part in message.parts] == [Thinking, Text, Call, Call]
    assert (thinking_of(message), text_of(message)) == ("Grübeln über 🎉", "Ich lese beide Dateien. Größe?")
    calls = [(one.name, json.loads(one.arguments)) for one in calls_of(message)]
    assert calls == [("read_file", {"path": "ä.py"}), ("read_file", {"path": "b.py"})]
    assert message.finish == "calls"
    # Anthropic does not count reasoning.
    reasoning = 0 if api == "anthropic" else 5
    assert message.usage == Usage(100, 50, 20, 0, reasoning, estimated=False)


@pytest.mark.parametrize("api", APIS)
async def test_text_arrives_while_the_reply_is_still_being_written(library: LitellmLibrary, api: str) -> None:
    async with FakeLLM([reply("one two three four", chars=1, fault=Stall(after=8))]) as server:
        lane = Lane(library, server, api)
        stream = lane.provider.stream(lane.request())
        first = await anext(stream)
        await stream.aclose()
        asked = await server.ended(1)
    assert isinstance(first, TextPiece)
    assert "one two three four".startswith(first.text)
    assert asked[0].outcome == "aborted"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("after", [-1, 2])
async def test_cancelling_closes_the_connection(library: LitellmLibrary, api: str, after: int) -> None:
    async with FakeLLM([reply("one two three four", chars=4, fault=Stall(after=after))]) as server:
        asking = asyncio.create_task(Lane(library, server, api).pieces())
        await server.arrived(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await server.ended(1))[0].outcome == "aborted"


@pytest.mark.parametrize("model", ["openai/own", "company/responses/own"])
async def test_RU_P4_7_a_server_of_ones_own_is_asked_by_the_responses_protocol(
    library: LitellmLibrary, model: str
) -> None:
    async with FakeLLM([reply("ok")]) as server:
        lane = Lane(library, server, "responses")
        lane.model = model
        assert text_of(await lane.message()) == "ok"
        asked = server.requests[0]
    assert (asked.path, asked.json["model"]) == ("/v1/responses", "own")


async def test_RU_P5_what_the_provider_bills_arrives(library: LitellmLibrary) -> None:
    async with FakeLLM([reply("ok", usage=Tokens(10, 5, cost=0.25))]) as server:
        assert (await Lane(library, server, "chat").message()).usage.cost_usd == 0.25


async def test_RU_bedrock_without_credentials_names_those_of_aws() -> None:
    class NoCredentialsError(Exception):
        """Named as botocore's."""

    outer = RuntimeError("litellm.AuthenticationError: Unable to locate credentials")
    outer.__cause__ = NoCredentialsError()
    error = error_of(outer, "bedrock", key="", has_begun=False)
    expected = "no AWS credentials: set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    assert (error.kind, error.message) == ("auth", expected)


@pytest.mark.parametrize("api", APIS)
async def test_the_key_travels_with_the_call_alone(library: LitellmLibrary, api: str) -> None:
    before = dict(os.environ)
    async with FakeLLM([reply("ok")]) as server:
        await Lane(library, server, api).message()
    headers = server.requests[0].headers
    assert KEY in " ".join(headers.values())
    assert KEY not in json.dumps(server.requests[0].json)
    assert {name: value for name, value in os.environ.items() if before.get(name) != value} == {}


# --- what is sent ---


@pytest.mark.parametrize(
    ("api", "parts"),
    [
        ("chat", ("I read it.", call("read_file", path="a.py", call_id="c1"))),
        (
            "responses",
            (think("Plan.", signature="ENC=="), "I read it.", call("read_file", path="a.py", call_id="c1")),
        ),
        (
            "anthropic",
            (think("Plan.", signature="SIG=="), "I read it.", call("read_file", path="a.py", call_id="c1")),
        ),
        ("gemini", (think("Plan."), "I read it.", call("read_file", path="a.py", signature="THOUGHT=="))),
    ],
)
async def test_a_conversation_goes_out_as_recorded(
    library: LitellmLibrary, api: str, parts: tuple[Part | str, ...]
) -> None:
    """Golden bodies of both requests of a turn: what the provider signed comes back to it."""
    asking = UserMessage("u1", (Text("What is this? "), Image("image/png", "aGVsbG8=")), "prompt")
    async with FakeLLM([reply(*parts), reply("Done.")]) as server:
        lane = Lane(library, server, api)
        first = await lane.message(asking, max_tokens=4000, effort="low")
        second = await lane.message(asking, first, *results(first), max_tokens=4000, effort="low")
        asked = await server.ended(2)
    assert text_of(second) == "Done."
    check_golden(api, asked)


def sent_back(asked: Asked, word: str) -> bool:
    return word in json.dumps(asked.json)


@pytest.mark.parametrize(
    ("api", "signature"), [("responses", "ENC=="), ("anthropic", "SIG=="), ("gemini", "THOUGHT==")]
)
async def test_signatures_return_only_on_the_lane_they_came_from(
    library: LitellmLibrary, api: str, signature: str
) -> None:
    made = call("read_file", path="a", signature="THOUGHT==" if api == "gemini" else "")
    parts = (think("Plan.", signature="" if api == "gemini" else signature), made)
    async with FakeLLM([reply(*parts), reply("ok"), reply("ok")]) as server:
        lane = Lane(library, server, api)
        first = await lane.message(QUESTION)
        await lane.message(QUESTION, first, *results(first))
        other = AssistantMessage(first.id, first.parts, first.model, "chat", first.finish, first.usage)
        await lane.message(QUESTION, other, *results(first))
    assert [sent_back(asked, signature) for asked in server.requests[:2]] == [False, True]
    # Gemini's signature is part of litellm's call id, which has to stay as it is.
    assert api == "gemini" or not sent_back(server.requests[2], signature)


async def test_redacted_thinking_returns_to_anthropic(library: LitellmLibrary) -> None:
    parts = (think("", redacted="BLOB=="), call("read_file", path="a"))
    async with FakeLLM([reply(*parts), reply("ok")]) as server:
        lane = Lane(library, server, "anthropic")
        first = await lane.message(QUESTION)
        await lane.message(QUESTION, first, *results(first))
    assert first.parts[0] == Thinking("", "", {"type": "redacted_thinking", "data": "BLOB=="})
    assistant = server.requests[1].json["messages"][1]
    assert assistant["content"][0] == {"type": "redacted_thinking", "data": "BLOB=="}


async def test_reasoning_of_a_tool_round_returns_to_servers_that_gave_it(library: LitellmLibrary) -> None:
    async with FakeLLM([reply(think("Plan."), call("read_file", path="a")), reply("ok")]) as server:
        lane = Lane(library, server, "chat")
        first = await lane.message(QUESTION)
        await lane.message(QUESTION, first, *results(first))
    assert server.requests[1].json["messages"][2]["reasoning_content"] == "Plan."


@pytest.mark.parametrize("api", APIS)
async def test_pictures_of_results_go_out_after_them(library: LitellmLibrary, api: str) -> None:
    picture = Image("image/png", "cGljdHVyZQ==")
    async with FakeLLM([reply(call("read_file", path="a.png")), reply("A cat.")]) as server:
        lane = Lane(library, server, api)
        first = await lane.message(QUESTION)
        one = calls_of(first)[0]
        answer = await lane.message(
            QUESTION, first, ToolMessage("t", one.id, one.name, "an image", "ok", (picture,))
        )
    assert text_of(answer) == "A cat."
    assert sent_back(server.requests[1], "cGljdHVyZQ==")


async def test_nothing_optional_is_sent_unasked(library: LitellmLibrary) -> None:
    async with FakeLLM([reply("ok")]) as server:
        await Lane(library, server, "chat").message(tools=(), system="")
    assert server.requests[0].json == {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_a_name_of_ones_own_is_sent_without_its_first_part(library: LitellmLibrary) -> None:
    async with FakeLLM([reply("ok"), reply("ok")]) as server:
        provider = LitellmProvider(library, key=test_key, base_url=server.url + "/v1")
        for model in ("company/team/model-7b", "bare-model"):
            async for _ in provider.stream(ModelRequest(model, "", (QUESTION,), ())):
                pass
    assert [asked.model for asked in server.requests] == ["team/model-7b", "bare-model"]


# --- endings and usage ---


@pytest.mark.parametrize(
    ("api", "finish", "expected"),
    [
        ("chat", "length", "length"),
        ("chat", "content_filter", "filter"),
        ("responses", "max_output_tokens", "length"),
        ("anthropic", "max_tokens", "length"),
        ("anthropic", "stop_sequence", "stop"),
        ("gemini", "MAX_TOKENS", "length"),
        ("gemini", "SAFETY", "filter"),
        ("gemini", "STOP", "stop"),
    ],
)
async def test_endings_are_told_apart(library: LitellmLibrary, api: str, finish: str, expected: str) -> None:
    async with FakeLLM([reply("Half an ans", finish=finish)]) as server:
        message = await Lane(library, server, api).message()
    assert (text_of(message), message.finish) == ("Half an ans", expected)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("fault", [CleanEnd(), CleanEnd(after=2), Cut(after=2), Reset(after=2)])
@pytest.mark.parametrize("parts", [("one two three four",), (call("read_file", path="a long path/to.py"),)])
async def test_a_broken_off_reply_is_cut_and_never_finished(
    library: LitellmLibrary, api: str, fault: Fault, parts: tuple[Part | str, ...]
) -> None:
    async with FakeLLM([reply(*parts, chars=4, fault=fault)]) as server:
        lane = Lane(library, server, api)
        seen: list[ModelDelta] = []
        kind = "cut"  # ending without a finish is one way to say so
        try:
            async for delta in lane.provider.stream(lane.request()):
                seen.append(delta)
        except ProviderError as error:
            kind = error.kind
    assert not [delta for delta in seen if isinstance(delta, Finished)]
    assert kind == "cut"


@pytest.mark.parametrize("api", APIS)
async def test_usage_nobody_stated_is_not_invented(library: LitellmLibrary, api: str) -> None:
    async with FakeLLM([reply("ok", usage=None)]) as server:
        message = await Lane(library, server, api).message()
    assert message.usage.estimated


async def test_a_hundred_equal_chunks_are_no_loop(library: LitellmLibrary) -> None:
    async with FakeLLM([reply("-" * 400, chars=1)]) as server:
        assert text_of(await Lane(library, server, "chat").message()) == "-" * 400


async def test_a_call_that_gemini_could_not_write_is_an_error(library: LitellmLibrary) -> None:
    async with FakeLLM([reply(call("read_file", '{"path": '))]) as server:
        error = await Lane(library, server, "gemini").error()
    assert error.kind == "server"
    assert "MALFORMED_FUNCTION_CALL" in error.message


# --- failures ---


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (
            400,
            {"error": {"message": "unknown parameter: foo", "type": "invalid_request_error"}},
            "bad_request",
        ),
        (401, {"error": {"message": f"bad key {KEY}", "type": "authentication_error"}}, "auth"),
        (403, {"error": {"message": "not for you", "type": "permission_error"}}, "auth"),
        (404, {"error": {"message": "no such model", "type": "not_found_error"}}, "not_found"),
        (413, {"error": {"message": "too large a body", "type": "request_too_large"}}, "context_overflow"),
        (422, {"error": {"message": "cannot process", "type": "invalid_request_error"}}, "bad_request"),
        (429, {"error": {"message": "slow down", "type": "rate_limit_error"}}, "rate_limit"),
        (500, {"error": {"message": "oh no", "type": "server_error"}}, "server"),
        (503, {"error": {"message": "overloaded", "type": "overloaded_error"}}, "overloaded"),
        (502, "<html><head><title>502</title></head><body>Bad Gateway</body></html>", "server"),
    ],
)
async def test_REL_035_statuses_keep_their_meaning(
    library: LitellmLibrary, api: str, status: int, body: object, kind: ErrorKind
) -> None:
    async with FakeLLM([failure(status, body)] * 2) as server:
        error = await Lane(library, server, api).error()
    assert (error.kind, error.status) == (kind, status)
    assert KEY not in error.message
    assert "<html" not in error.message
    assert "litellm" not in error.message.lower()
    # A 422 of an OpenAI-compatible server is asked once more, without the parameters it named.
    assert len(server.requests) == (2 if (status, api) == (422, "chat") else 1)


@pytest.mark.parametrize("api", APIS)
async def test_REL_033_the_wait_a_provider_asks_for_is_kept(library: LitellmLibrary, api: str) -> None:
    async with FakeLLM([failure(429, None, retry_after="7")]) as server:
        assert (await Lane(library, server, api).error()).retry_after_s == 7


@pytest.mark.parametrize("api", APIS)
async def test_REL_037_an_overflow_is_recognised(library: LitellmLibrary, api: str) -> None:
    words = "This model's maximum context length is 128000 tokens, your messages resulted in 130000 tokens."
    async with FakeLLM(
        [failure(400, {"error": {"message": words, "code": "context_length_exceeded"}})]
    ) as server:
        assert (await Lane(library, server, api).error()).kind == "context_overflow"


@pytest.mark.parametrize("api", APIS)
async def test_an_error_inside_a_stream_is_an_error(library: LitellmLibrary, api: str) -> None:
    async with FakeLLM([reply("one two three", chars=4, fault=ErrorEvent(after=1))]) as server:
        error = await Lane(library, server, api).error()
    assert error.kind in ("server", "overloaded")
    assert "Traceback" not in error.message


@pytest.mark.parametrize("api", APIS)
async def test_REL_038_a_web_page_is_never_shown(library: LitellmLibrary, api: str) -> None:
    async with FakeLLM([reply("x", fault=Html())]) as server:
        error = await Lane(library, server, api).error()
    assert "<" not in error.message


async def test_a_missing_key_fails_before_anything_is_sent(library: LitellmLibrary) -> None:
    async def missing() -> str:
        raise KeyMissingError("no key for openai: set OPENAI_API_KEY")

    async with FakeLLM([reply("x")]) as server:
        provider = LitellmProvider(library, key=missing, base_url=server.url)
        with pytest.raises(ProviderError, match="set OPENAI_API_KEY") as failed:
            await anext(provider.stream(ModelRequest("openai/gpt-4o", "", (QUESTION,), ())))
    assert (failed.value.kind, server.requests) == ("auth", [])


@pytest.mark.parametrize("api", APIS)
async def test_REL_038_a_server_that_is_not_there_is_named(library: LitellmLibrary, api: str) -> None:
    async with FakeLLM([]) as server:
        lane = Lane(library, server, api)
    error = await lane.error()
    assert (error.kind, error.status) == ("server", 0)
    assert error.message.startswith(f"{server.url.removeprefix('http://')} refuses connections;")


async def test_several_streams_run_side_by_side(library: LitellmLibrary) -> None:
    def script(asked: Asked):
        return reply(f"echo {asked.last_user_text}", chars=2, delay_s=0.001)

    async with FakeLLM(script) as server:
        lane = Lane(library, server, "chat")
        questions = [UserMessage("u", (Text(f"number {number}"),), "prompt") for number in range(8)]
        answers = await asyncio.gather(*(lane.message(question) for question in questions))
    assert [text_of(answer) for answer in answers] == [f"echo number {number}" for number in range(8)]


async def test_litellm_prints_nothing(library: LitellmLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    script = [reply("ok"), failure(500), failure(400), reply("x", fault=Cut())]
    async with FakeLLM(script) as server:
        lane = Lane(library, server, "anthropic")
        await lane.message()
        for _ in script[1:]:
            await lane.error()
    assert capfd.readouterr() == ("", "")
