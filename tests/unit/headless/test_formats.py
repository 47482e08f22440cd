"""The records of the format sse, read back by the parser that programs use."""

from __future__ import annotations

import pytest

from buddy.headless.formats import SseRecord, parse_sse_event
from tests.support.program import GOLDEN


def test_every_record_of_a_run_is_read_back() -> None:
    text = (GOLDEN / "formats" / "sse.txt").read_text().partition("--- stdout ---\n")[2]
    records = [parse_sse_event(record) for record in text.split("\n\n") if record.startswith("event:")]
    names = [record.event for record in records]
    assert names[0] == "session"
    assert names[-1] == "done"
    by_name = {record.event: record.data for record in records}
    assert by_name["content_delta"]["delta"] == by_name["content_delta"]["text"]
    assert by_name["tool_call_result"]["result"] == by_name["tool_call_result"]["text"]
    assert isinstance(by_name["tool_call_result"]["is_error"], bool)
    assert isinstance(by_name["tool_call_start"]["arguments"], str)
    assert isinstance(by_name["tool_call_start"]["input"], dict)


def test_a_record_may_have_comments_carriage_returns_and_several_data_lines() -> None:
    record = ': keep-alive\r\nevent: x\r\nid: 3\r\ndata: {"a":\r\ndata:1}'
    assert parse_sse_event(record) == SseRecord("x", {"a": 1})


@pytest.mark.parametrize(
    "record", ["", "event: x", 'data: {"a": 1}', "event: x\ndata: [1]", "event: x\ndata: {"]
)
def test_what_is_no_record_is_refused(record: str) -> None:
    with pytest.raises(ValueError, match=r"expected|Expecting"):
        parse_sse_event(record)
