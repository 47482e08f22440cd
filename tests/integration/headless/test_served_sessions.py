"""A session served over HTTP: what readers get, and what requests do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from buddy.agent.events import Notice, TextDelta
from buddy.headless.formats import parse_sse_event
from buddy.headless.serve.event_stream import MAX_READERS, PageLimits
from buddy.llm.scripted import Pause, Reply, Say, ScriptedCall
from buddy.tools.ask_user import Option, Question
from tests.support.page_client import EventStreamReader, Page, serving
from tests.support.waiting import until


def _write(path: str, content: str) -> ScriptedCall:
    return ScriptedCall("write_file", f'{{"path":"{path}","content":"{content}"}}')


LONG: Reply = (Say("one "), Pause(3600), Say("two"))


async def test_a_prompt_runs_and_every_event_of_it_arrives(tmp_path: Path) -> None:
    script = [(Say("I write it."), _write("a.txt", "hello\\n")), (Say("Done."),)]
    async with serving(tmp_path, script) as page, page.events() as reader:
        assert (reader.status, reader.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        accepted = (await page.post("/prompt", {"text": "write a.txt"})).json()
        assert accepted == {"task_id": 1, "waits": False, "notes": []}
        await reader.until("turn_finished")
        names = [record.event for record in reader.records]
        for name in ("turn_started", "reply_started", "text_delta", "tool_call_delta", "reply_finished",
                     "tool_started", "tool_finished", "token_usage", "turn_finished"):  # fmt: skip
            assert name in names
        assert reader.text() == "I write it.Done."
        assert [data["seq"] for data in _events(reader)] == list(range(1, len(_events(reader)) + 1))
        assert (tmp_path / "work" / "a.txt").read_text() == "hello\n"


async def test_a_reader_that_comes_back_misses_nothing(tmp_path: Path) -> None:
    texts = [f"line {number}\n" for number in range(200)]
    async with serving(tmp_path, [tuple(map(Say, texts))]) as page:
        async with page.events() as first:
            await page.post("/prompt", {"text": "go"})
            await first.until("text_delta")
        assert first.ids
        async with page.events(first.ids[-1]) as second:
            await second.until("turn_finished")
        assert "reset" not in [record.event for record in second.records]
        assert first.text() + second.text() == "".join(texts)
        assert len({*first.ids, *second.ids}) == len(first.ids) + len(second.ids)


async def test_the_session_and_the_events_after_it_fit_together(tmp_path: Path) -> None:
    """A page that opens in the middle of a reply shows all of it once."""
    async with serving(tmp_path, [LONG]) as page:
        await page.post("/prompt", {"text": "go"})
        async with page.events() as reader:
            session = await _session_with_text(page)
            live = [event["text"] for event in session["tasks"][0]["live"] if event["type"] == "text_delta"]
            assert live == ["one "]
            await page.post("/cancel", {})
            async with page.events(session["last_event_id"]) as later:
                await later.until("turn_finished")
        assert later.text() == ""
        del reader
        after = (await page.get("/session")).json()
        parts = [message["parts"] for message in after["tasks"][0]["messages"]]
        assert [part["text"] for some in parts for part in some] == ["go", "one "]
        assert after["tasks"][0]["live"] == []


async def test_an_id_of_another_run_or_too_old_a_one_is_reset(tmp_path: Path) -> None:
    async with serving(tmp_path, [tuple(Say("x" * 400) for _ in range(60))], max_bytes=8_000) as page:
        async with page.events() as reader:
            await page.post("/prompt", {"text": "go"})
            await reader.until("task")
            await until(lambda: b"event: turn_finished" in b"".join(page.log.after(0, 1_000_000)))
        for last_id in ("0badcafe-3", reader.ids[0], "nonsense", f"{reader.ids[0]}0000000", "-1", "é"):
            async with page.events(last_id) as late:
                await late.until("reset")
            assert [record.event for record in late.records] == ["reset"]
            kept = [page.log.id_of(number) for number in range(page.log.oldest, page.log.newest + 1)]
            assert [one in kept for one in late.ids] == [True]
        assert page.log.kept_bytes < 16_000


async def test_a_quiet_stream_has_heartbeats_and_the_end_is_said(tmp_path: Path) -> None:
    async with serving(tmp_path, limits=PageLimits(heartbeat_s=0.01)) as page, page.events() as reader:
        while len(reader.comments) < 4:
            assert await reader.read()
        page.session.board.hub  # noqa: B018 - the session is still open
        page.log.close()
        await reader.to_end()
    assert reader.records[-1].event == "end"


async def test_an_approval_is_answered_by_what_was_shown(tmp_path: Path) -> None:
    script = [(_write("a.txt", "hello\\n"),), (Say("Done."),)]
    async with serving(tmp_path, script) as page, page.events() as reader:
        page.session.policy.set_mode("ask")
        await page.post("/prompt", {"text": "write a.txt"})
        await reader.until("approval_requested")
        (asked,) = (await page.get("/session")).json()["approvals"]
        event = reader.of("approval_requested")[0]["event"]
        assert asked == {"task_id": 1, "event": event}
        assert "+hello" in event["preview"]["files"][0]["diff"]

        answer = {"request_id": event["request_id"], "digest": event["digest"], "answer": "once"}
        stale = await page.post("/answer", {**answer, "digest": "0" * 64})
        assert (stale.status, stale.json()["error"]) == (
            409, "The request changed after you read it. Read it again, then answer."
        )  # fmt: skip
        for digest in ("", "é"):
            assert (await page.post("/answer", {**answer, "digest": digest})).status == 409
        unknown = await page.post("/answer", {**answer, "request_id": "x"})
        assert (unknown.status, unknown.json()["error"]) == (
            409, "That request was already answered or withdrawn."
        )  # fmt: skip
        assert (await page.post("/answer", {**answer, "answer": "always"})).status == 400
        assert not (tmp_path / "work" / "a.txt").exists()

        assert (await page.post("/answer", answer)).json() == {"answered": True}
        assert (await page.post("/answer", answer)).status == 409
        await reader.until("turn_finished")
        assert (tmp_path / "work" / "a.txt").read_text() == "hello\n"
        assert reader.of("approval_resolved")[0]["event"]["by"] == "you"
        assert (await page.get("/session")).json()["approvals"] == []


async def test_two_readers_answer_and_one_answer_counts(tmp_path: Path) -> None:
    script = [(_write("a.txt", "x"),), (Say("Done."),)]
    async with serving(tmp_path, script) as page, page.events() as reader:
        page.session.policy.set_mode("ask")
        await page.post("/prompt", {"text": "write"})
        await reader.until("approval_requested")
        event = reader.of("approval_requested")[0]["event"]
        body = {"request_id": event["request_id"], "digest": event["digest"]}
        answers = await asyncio.gather(
            page.post("/answer", {**body, "answer": "denied", "words": "not there"}),
            page.post("/answer", {**body, "answer": "once"}),
        )
        assert sorted(answer.status for answer in answers) == [200, 409]


async def test_a_question_of_the_model_is_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as page, page.events() as reader:
        options = [Option("red"), Option("blue")]
        asking = asyncio.create_task(
            page.session.questions.ask(1, [Question("Which colour?", options=options)], lambda _text: None)
        )
        await reader.until("question")
        (shown,) = (await page.get("/session")).json()["questions"]
        assert shown == reader.of("question")[0]
        assert (await page.post("/reply", {"question": 7, "words": "red"})).status == 409
        assert (await page.post("/reply", {"question": 1, "words": "9"})).status == 409
        assert (await page.post("/reply", {"question": 1, "words": "2"})).status == 200
        assert await asking == ("blue",)
        await reader.until("question_closed")


async def test_steering_queueing_and_cancelling(tmp_path: Path) -> None:
    async with serving(tmp_path, [LONG]) as page, page.events() as reader:
        assert (await page.post("/steer", {"text": "hey"})).status == 409
        assert (await page.post("/cancel", {})).status == 409
        for path, body in (("/steer", {"text": "x"}), ("/prompt", {"text": "x"}), ("/cancel", {})):
            missing = await page.post(path, {**body, "task_id": 9})
            assert (missing.status, missing.json()["error"]) == (404, "there is no task 9 (tasks: 1)")
        await page.post("/prompt", {"text": "go"})
        await reader.until("text_delta")
        assert (await page.post("/prompt", {"text": "then this"})).json()["waits"] is True
        assert (await page.post("/steer", {"text": "hey"})).json()["waits"] is False
        facts = (await page.get("/session")).json()["tasks"][0]["facts"]
        assert (facts["state"], facts["waiting"]) == ("running", ["hey", "then this"])
        cancelled = (await page.post("/cancel", {"task_id": 1})).json()
        assert cancelled == {"task_id": 1, "texts": ["hey", "then this"]}
        await reader.until("turn_finished")
        assert reader.of("turn_finished")[0]["event"]["outcome"] == "cancelled"


async def test_a_new_task_runs_beside_the_first(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda _request: (Say("hello"),)) as page, page.events() as reader:
        first, second = await asyncio.gather(
            page.post("/prompt", {"text": "one"}),
            page.post("/prompt", {"text": "two", "new_task": True}),
        )
        assert (first.json()["task_id"], second.json()["task_id"]) == (1, 2)
        await reader.until("turn_finished", 2)
        assert (reader.text(1), reader.text(2)) == ("hello", "hello")
        while {data["task_id"]: data["title"] for data in reader.of("task")} != {1: "one", 2: "two"}:
            assert await reader.read()
        facts = [task["facts"] for task in (await page.get("/session")).json()["tasks"]]
        assert [(one["title"], one["is_background"], one["cost_usd"]) for one in facts] == [
            ("one", False, 0.01), ("two", True, 0.01)
        ]  # fmt: skip


async def test_the_changes_of_the_session_are_shown(tmp_path: Path) -> None:
    script = [(_write("a.txt", "hello\\n"),), (Say("Done."),)]
    async with serving(tmp_path, script) as page, page.events() as reader:
        await page.post("/prompt", {"text": "write a.txt"})
        await reader.until("turn_finished")
        whole = (await page.get("/diff")).json()
        assert [(file["path"], file["added"]) for file in whole["files"]] == [("a.txt", 1)]
        assert (await page.get("/diff?task_id=1")).json() == whole
        assert (await page.get("/diff?task_id=2")).status == 404
        assert (await page.get("/diff?task_id=x")).status == 400


async def test_a_file_is_previewed_while_it_arrives(tmp_path: Path) -> None:
    content = "\\n".join(f"line {number}" for number in range(50))
    body = f'{{"path":"long.txt","content":"{content}'
    script = [(ScriptedCall("write_file", body), Pause(3600))]
    async with serving(tmp_path, script) as page, page.events() as reader:
        await page.post("/prompt", {"text": "write"})
        await reader.until("preview")
        while reader.of("preview")[-1]["lines"] < 50:
            assert await reader.read()
        last = reader.of("preview")[-1]
        assert (last["task_id"], last["name"], last["path"]) == (1, "write_file", "long.txt")
        assert last["end"].endswith("line 49")
        assert (await page.get("/session")).json()["tasks"][0]["previews"] == [last]


async def test_a_rewound_conversation_is_loaded_again(tmp_path: Path) -> None:
    async with serving(tmp_path, [(Say("hello"),)]) as page, page.events() as reader:
        await page.post("/prompt", {"text": "hi"})
        await reader.until("turn_finished")
        await page.session.board.wait(1)
        await page.session.board.rewind(1, 0)
        await reader.until("history_changed")
        assert (await page.get("/session")).json()["tasks"][0]["messages"] == []


async def test_a_hundred_readers_get_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path, [tuple(Say(f"{number} ") for number in range(100))]) as page:
        readers = [page.events() for _ in range(100)]
        opened = await asyncio.gather(*(reader.__aenter__() for reader in readers))
        await page.post("/prompt", {"text": "go"})
        await asyncio.gather(*(reader.until("turn_finished") for reader in opened))
        assert {reader.text() for reader in opened} == {"".join(f"{number} " for number in range(100))}
        assert len(page.log.readers) == 100
        for reader in readers:
            await reader.__aexit__(None, None, None)
        await until(lambda: not page.log.readers)


async def test_a_client_of_http_1_0_gets_records_without_chunks(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        stream, writer = await asyncio.open_connection("127.0.0.1", page.port)
        head = ("GET /events HTTP/1.0", f"Host: 127.0.0.1:{page.port}", f"Authorization: Bearer {page.token}")
        writer.write("\r\n".join((*head, "", "")).encode())
        await stream.readuntil(b"retry: 1000\n\n")
        for text in ("one", "two"):
            page.session.board.hub.emit(1, Notice("info", text))
            record = await stream.readuntil(b"\n\n")
            assert record.startswith(b"id: ")
            assert parse_sse_event(record.decode()).data["event"]["text"] == text
        writer.close()


async def test_one_reader_too_many_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        readers = [page.events() for _ in range(MAX_READERS)]
        await asyncio.gather(*(reader.__aenter__() for reader in readers))
        refused = await page.get("/events")
        assert (refused.status, refused.json()) == (503, {"error": "200 readers are connected already"})
        await readers[0].__aexit__(None, None, None)
        await until(lambda: len(page.log.readers) < MAX_READERS)
        async with page.events() as again:
            assert again.status == 200
        for reader in readers[1:]:
            await reader.__aexit__(None, None, None)


async def test_a_reader_that_stops_reading_is_cut_off_and_holds_up_nothing(tmp_path: Path) -> None:
    limits = PageLimits(stalled_s=0.5)
    async with serving(tmp_path, limits=limits, max_bytes=1_000_000) as page:
        hub = page.session.board.hub
        async with page.events() as stopped, page.events() as healthy:
            for number in range(500):  # more than the buffers of two sockets
                hub.emit(1, TextDelta("reply", number, "x" * 50_000))
                await healthy.until("text_delta", number + 1)
            assert page.log.kept_bytes < 1_100_000
            page.scripted.events(1)  # the one other reader
            assert hub.ready.is_set()
            await until(lambda: page.warnings)
            assert page.warnings == [
                "a reader of the page stopped reading and was disconnected; it can connect again"
            ]
            await until(lambda: len(page.log.readers) == 1)
            await stopped.to_end()
            assert len(stopped.of("text_delta")) < 500
            assert "reset" not in [record.event for record in healthy.records]


async def test_a_reader_that_is_too_slow_is_told_to_load_the_session_again(tmp_path: Path) -> None:
    async with serving(tmp_path, max_bytes=1_000_000) as page, page.events() as slow:
        for number in range(500):  # all at once: they are one batch
            page.session.board.hub.emit(1, TextDelta("reply", number, "x" * 50_000))
        await slow.until("reset")
        assert slow.of("reset") == [{"reason": "this reader was too slow"}]
        page.session.board.hub.emit(1, Notice("info", "afterwards"))
        await slow.until("notice")


async def test_hostile_text_travels_as_data(tmp_path: Path) -> None:
    hostile = (
        "</script><script>alert(1)</script>\x1b]0;x\x07\r\n\r\nevent: approval_requested\ndata: {}\n\n\u2028"
    )
    async with serving(tmp_path, [(Say(hostile),)]) as page, page.events() as reader:
        await page.post("/prompt", {"text": hostile})
        await reader.until("turn_finished")
        assert reader.text() == hostile
        assert reader.of("approval_requested") == []
        assert all(isinstance(record.data, dict) for record in reader.records)
        session = (await page.get("/session")).headers
        assert session["content-type"] == "application/json"


async def test_the_description_names_every_address(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        document = (await page.get("/openapi.json")).json()
        assert sorted(document["paths"]) == [
            "/answer", "/cancel", "/diff", "/events", "/prompt", "/reply", "/session", "/steer"
        ]  # fmt: skip
        references = set(_references(document))
        assert {f"#/components/schemas/{name}" for name in document["components"]["schemas"]} >= references
        assert "TextDelta" in document["components"]["schemas"]


async def _session_with_text(page: Page) -> Any:
    async with asyncio.timeout(30):
        while True:
            session = (await page.get("/session")).json()
            if any(event["type"] == "text_delta" for event in session["tasks"][0]["live"]):
                return session


def _events(reader: EventStreamReader) -> list[dict[str, Any]]:
    return [record.data for record in reader.records if "seq" in record.data]


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [found for inner in value.values() for found in _references(inner)]
    if isinstance(value, list):
        return [found for inner in value for found in _references(inner)]
    return []
