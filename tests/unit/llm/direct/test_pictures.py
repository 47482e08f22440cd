"""The direct lane to image APIs, over real HTTP: what is sent, and what a bad answer comes to."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from buddy.agent.provider import ProviderError
from buddy.llm.direct.lane import Endpoint
from buddy.llm.direct.pictures import OpenAIPictures
from buddy.llm.pictures import MAX_REPLY_BYTES, MadePictures, PictureOrder, PictureUsage
from tests.fake_llm.pictures import PictureAnswer, form_of, made, png, refused
from tests.fake_llm.server import FakeLLM
from tests.support.lanes import connect

PICTURE = png()


def lane_to(server: FakeLLM, *, total_s: float = 30) -> OpenAIPictures:
    return OpenAIPictures(Endpoint(f"{server.url}/v1", lambda: "sk-test-key"), connect, total_s=total_s)


async def order(server: FakeLLM, order: PictureOrder, model: str = "gpt-image-2") -> MadePictures:
    lane = lane_to(server)
    try:
        return await lane.make(model, order, lambda _size: None)
    finally:
        await lane.aclose()


async def refusal(*answers: PictureAnswer) -> ProviderError:
    async with FakeLLM([], pictures=answers) as server:
        with pytest.raises(ProviderError) as caught:
            await order(server, PictureOrder("a cat"))
        return caught.value


async def test_an_order_says_what_is_wanted_and_the_answer_is_decoded() -> None:
    usage = {
        "input_tokens": 15,
        "output_tokens": 272,
        "input_tokens_details": {"text_tokens": 10, "image_tokens": 5},
    }
    async with FakeLLM([], pictures=[made(PICTURE, PICTURE, usage=usage)]) as server:
        found = await order(server, PictureOrder("a cat", 2, "1024x1024", "image/webp"))
        sent = server.orders[0]
    assert found == MadePictures((PICTURE, PICTURE), PictureUsage(10, 5, 272))
    assert (sent.path, sent.headers["authorization"]) == ("/v1/images/generations", "Bearer sk-test-key")
    assert sent.json == {
        "model": "gpt-image-2",
        "prompt": "a cat",
        "n": 2,
        "size": "1024x1024",
        "output_format": "webp",
    }


async def test_other_models_are_asked_for_base64() -> None:
    async with FakeLLM([], pictures=[made(PICTURE)]) as server:
        await order(server, PictureOrder("a cat"), model="flux-schnell")
        assert server.orders[0].json == {
            "model": "flux-schnell",
            "prompt": "a cat",
            "n": 1,
            "response_format": "b64_json",
        }


async def test_a_picture_to_change_travels_in_a_form() -> None:
    async with FakeLLM([], pictures=[made(PICTURE)]) as server:
        await order(server, PictureOrder('cut "it"\r\nout', source=PICTURE, transparent=True))
        sent = server.orders[0]
    assert sent.path == "/v1/images/edits"
    assert form_of(sent) == {
        "model": b"gpt-image-2",
        "prompt": b'cut "it"\r\nout',
        "n": b"1",
        "output_format": b"png",
        "background": b"transparent",
        "image": PICTURE,
    }


async def test_a_refusal_is_told_with_the_servers_words_and_without_the_key() -> None:
    error = await refusal(refused(400, "Your request was rejected by the safety system, key sk-test-key"))
    assert error.kind in ("bad_request", "content_filter")
    assert "rejected by the safety system" in error.message
    assert "sk-test-key" not in error.message


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>hello</html>", "not what an image API sends"),
        (b'{"data": 3}', "not what an image API sends"),
        (b"[" * 100_000, "not what an image API sends"),
        (b'{"data": [{"b64_json": "\xff\xfe"}]}', "not what an image API sends"),
        (b'{"data": []}', "an answer without pictures came"),
        (b"{}", "an answer without pictures came"),
        (b'{"data": [{}]}', "names no picture"),
        (b'{"data": [{"b64_json": "@@@@"}]}', "is not base64"),
        (b'{"data": [{"url": "https://cdn.example/a.png"}]}', "address of a picture on another host"),
        (b'{"data": [{"url": "file:///etc/passwd"}]}', "address of a picture on another host"),
        (b'{"data": [{"url": "http://[::1"}]}', "address of a picture on another host"),
    ],
)
async def test_an_answer_that_is_none_is_an_error_that_says_so(body: bytes, said: str) -> None:
    error = await refusal(PictureAnswer(body))
    assert (error.kind, said in error.message, error.retryable) == ("server", True, False)


async def test_a_picture_at_an_address_of_the_same_server_is_fetched_without_the_key() -> None:
    answer = json.dumps({"data": [{"url": "/v1/files/images/generations"}]}).encode()
    async with FakeLLM([], pictures=[PictureAnswer(answer), PictureAnswer(PICTURE)]) as server:
        found = await order(server, PictureOrder("a cat"))
        fetched = server.orders[1]
    assert found.pictures == (PICTURE,)
    assert (fetched.method, "authorization" in fetched.headers) == ("GET", False)


async def test_a_picture_in_a_data_address_is_taken() -> None:
    url = "data:image/png;base64," + base64.b64encode(PICTURE).decode()
    async with FakeLLM([], pictures=[PictureAnswer(json.dumps({"data": [{"url": url}]}).encode())]) as server:
        assert (await order(server, PictureOrder("a cat"))).pictures == (PICTURE,)


async def test_no_more_pictures_are_fetched_than_were_ordered() -> None:
    rows = [{"url": f"/v1/files/images/generations?{number}"} for number in range(1_000)]
    answer = PictureAnswer(json.dumps({"data": rows}).encode())
    async with FakeLLM([], pictures=[answer, *[PictureAnswer(PICTURE)] * 3]) as server:
        found = await order(server, PictureOrder("a cat", 2))
        assert len(server.orders) == 3
    assert found.pictures == (PICTURE, PICTURE)


@pytest.mark.parametrize("cost", [-100.0, -0.01])
async def test_a_bill_below_nothing_is_no_bill(cost: float) -> None:
    async with FakeLLM([], pictures=[made(PICTURE, usage={"output_tokens": 10, "cost": cost})]) as server:
        assert (await order(server, PictureOrder("a cat"))).usage.cost_usd is None


async def test_an_endless_answer_is_left_at_the_limit() -> None:
    heard: list[int] = []
    async with FakeLLM([], pictures=[PictureAnswer(b'{"data": "' + b"A" * 1_000_000, times=100)]) as server:
        lane = lane_to(server)
        with pytest.raises(ProviderError, match="has more than 64,000,000 bytes"):
            await lane.make("gpt-image-2", PictureOrder("a cat"), heard.append)
        await lane.aclose()
        assert (await server.order_ended(1)).outcome == "aborted"
    assert 0 < max(heard) <= MAX_REPLY_BYTES


async def test_a_stated_length_beyond_the_limit_is_not_read_at_all() -> None:
    error = await refusal(PictureAnswer(b"x", headers={"content-length": "100000000"}))
    assert "an answer of 100,000,000 bytes comes" in error.message


async def test_a_cancelled_order_hangs_up() -> None:
    async with FakeLLM([], pictures=[PictureAnswer(made(PICTURE).body, stalls=True)]) as server:
        lane = lane_to(server)
        running = asyncio.create_task(lane.make("gpt-image-2", PictureOrder("a cat"), lambda _size: None))
        await server.ordered(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await server.order_ended(1)).outcome == "aborted"
        await lane.aclose()


async def test_a_silent_service_is_given_up() -> None:
    async with FakeLLM([], pictures=[PictureAnswer(made(PICTURE).body, stalls=True)]) as server:
        lane = lane_to(server, total_s=0.2)
        with pytest.raises(ProviderError, match=r"made no picture within 0\.2 seconds"):
            await lane.make("gpt-image-2", PictureOrder("a cat"), lambda _size: None)
        await lane.aclose()


async def test_a_server_without_an_image_api_is_an_error_of_that_kind() -> None:
    async with FakeLLM([]) as server:
        with pytest.raises(ProviderError) as caught:
            await order(server, PictureOrder("a cat"))
    assert caught.value.kind == "not_found"
