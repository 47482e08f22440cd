"""Errors are recognised by real texts of providers and reported in one sentence."""

from __future__ import annotations

import json

import pytest

from buddy.agent.provider import ProviderError
from buddy.llm.direct.openai_decoder import ChatDecoder
from buddy.llm.direct.response_reader import ReplyReader
from buddy.llm.errors import classify, duration_s, read_body, redact
from buddy.safety.sanitise import clean

OWN_KEY = "Zq7-vV4pLw9TnB2xKd8R"
"""A key of no known shape."""


def error(status: int | None, body: object = "", headers: dict[str, str] | None = None) -> ProviderError:
    return classify(status, headers or {}, body, "example.com", now=1_700_000_000)


def said(message: str, **more: object) -> str:
    return json.dumps({"error": {"message": message, **more}})


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "bad_request", False),
        (401, "auth", False),
        (402, "quota", False),
        (403, "auth", False),
        (404, "not_found", False),
        (407, "auth", False),
        (408, "server", True),
        (409, "server", True),
        (413, "context_overflow", False),
        (418, "bad_request", False),
        (422, "bad_request", False),
        (425, "server", True),
        (429, "rate_limit", True),
        (500, "server", True),
        (502, "server", True),
        (503, "overloaded", True),
        (504, "server", True),
        (524, "server", True),
        (529, "overloaded", True),
        (0, "server", True),
        (None, "server", True),
    ],
)
def test_REL_035_a_status_alone_decides_where_nothing_is_said(status, kind, retryable):
    found = error(status)
    assert (found.kind, found.retryable) == (kind, retryable)


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).",
        "This endpoint's maximum context length is 200000 tokens. However, you requested 2500021 tokens",
        "the request exceeds the available context size, try increasing it",
        "prompt too long; exceeded max context length by 12 tokens",
        "Your request exceeded model token limit: 262144",
        "Input is too long for requested model.",
        "Please reduce the length of the messages or completion.",
        "tokens in request more than max tokens allowed",
        "The prompt exceeds the model's maximum prompt length",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "Range of input length should be [1, 30720]",
        "Requested token count exceeds the model's maximum context length of 131072 tokens",
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "`inputs` tokens + `max_new_tokens` must be <= 4096",
        "Please reduce the length of either one",
        "request (9000 tokens) exceeds the available context size (8192 tokens)",
        "input tokens exceed the configured limit of 272000 tokens",
        "Conversation is too long for this model",
    ],
)
def test_REL_037_a_conversation_that_is_too_long_is_recognised_in_many_wordings(message):
    assert error(400, said(message)).kind == "context_overflow"
    assert classify(0, {}, {"error": {"message": message}}, "x").kind == "context_overflow"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (
            429,
            said(
                "You exceeded your current quota, please check your plan and billing details.",
                code="insufficient_quota",
            ),
            "quota",
        ),
        (400, said("Your credit balance is too low to access the Anthropic API."), "quota"),
        (403, said("Key limit exceeded (monthly limit)"), "quota"),
        (
            429,
            said("Your account is suspended, please check your plan", type="exceeded_current_quota_error"),
            "quota",
        ),
        (
            400,
            said("Access denied, please make sure your account is in good standing.", code="Arrearage"),
            "quota",
        ),
        (400, said("API key not valid. Please pass a valid API key.", status="INVALID_ARGUMENT"), "auth"),
        (400, said("Incorrect API key provided: xa***"), "auth"),
        (401, '{"detail":"Invalid API Key"}', "auth"),
        (400, said("example/nope is not a valid model ID"), "not_found"),
        (403, said("Project `p` does not have access to model `gpt-9`", code="model_not_found"), "not_found"),
        (400, '{"message":"Invalid model: nope","type":"invalid_model","code":"1500"}', "not_found"),
        (400, said("The response was filtered", code="content_filter"), "content_filter"),
        (400, said("Output blocked by content filtering policy"), "content_filter"),
        (403, said("Input was flagged"), "content_filter"),
        (429, '{"message":"Service tier capacity exceeded for this model."}', "overloaded"),
        (500, said("Overloaded", type="overloaded_error"), "overloaded"),
        (400, said("Rate limit reached for requests", code="rate_limit_exceeded"), "rate_limit"),
        (400, said("max_tokens exceeds the maximum of this model"), "bad_request"),
        (
            429,
            said("Request too large for gpt-9 on tokens per min (TPM): Limit 1, Requested 2"),
            "context_overflow",
        ),
        (400, said("max_tokens: must be at least 1", type="invalid_request_error"), "bad_request"),
        (400, said("model does not support tools", type="api_error"), "bad_request"),
        (422, '{"detail":[{"loc":["body","x"],"msg":"Extra inputs are not permitted"}]}', "bad_request"),
        (502, "<html><head><title>502 Bad Gateway</title></head></html>", "server"),
        (200, said("Internal error", code=500), "server"),
        (200, said("Too many requests", code=429), "rate_limit"),
    ],
)
def test_words_decide_where_the_status_lies(status, body, kind):
    assert error(status, body).kind == kind


def test_a_rate_limit_that_advises_a_shorter_prompt_is_no_overflow():
    body = said(
        "This request would exceed the rate limit. Please reduce the prompt length", type="rate_limit_error"
    )
    assert error(429, body).kind == "rate_limit"


def test_geminis_quota_with_a_delay_is_a_rate_limit_and_the_delay_stands_in_the_body():
    details = [
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaId": "RequestsPerMinute"}],
        },
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"},
    ]
    body = {
        "error": {
            "code": 429,
            "message": "You exceeded your current quota, please check your plan and billing details.",
            "status": "RESOURCE_EXHAUSTED",
            "details": details,
        }
    }
    found = error(429, json.dumps(body))
    assert (found.kind, found.retry_after_s) == ("rate_limit", 37)


def test_an_error_inside_an_error_is_opened():
    inner = json.dumps(
        {"error": {"code": 503, "message": "This model is experiencing high demand", "status": "UNAVAILABLE"}}
    )
    found = error(503, {"error": {"message": inner, "code": 503}})
    assert (found.kind, found.message) == (
        "overloaded",
        "example.com answered 503 (overloaded): This model is experiencing high demand",
    )
    routed = {
        "error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": said("slow down")}}
    }
    assert error(429, routed).kind == "rate_limit"


@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"Retry-After": "0"}, "", 0),
        ({"retry-after": "5"}, "", 5),
        ({"retry-after": "86400"}, "", 86_400),
        ({"retry-after": "1.5"}, "", 1.5),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, "", 30),
        ({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, "", 0),
        ({"retry-after": "Tuesday, 14-Nov-23 22:13:50 GMT"}, "", 30),
        ({"retry-after": "Tue Nov 14 22:13:50 2023"}, "", 30),
        ({"retry-after": "Tue, 34 Nov 2023 22:13:50 GMT"}, "", None),
        ({"retry-after": "-3"}, "", 0),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "inf"}, "", None),
        ({"retry-after": "soon"}, "Please try again in 2s.", 2),
        ({"retry-after-ms": "174", "retry-after": "1"}, "", 0.174),
        ({}, "Please try again in 1.5s. Visit", 1.5),
        ({}, "Please try again in 174ms.", 0.174),
        ({}, "Please try again in 9m38.016s. Need more?", 578.016),
        ({}, "Please retry after 26 seconds.", 26),
        ({}, "Please wait 2 minutes and 5 seconds", 125),
        ({}, "Please retry in 37.5s", 37.5),
        ({}, "Too many requests, try again later", None),
        ({}, "Limit 30000 tokens per minute, used 20000", None),
    ],
)
def test_REL_033_the_wait_a_provider_asks_for_is_found(headers, message, seconds):
    found = error(429, said(message), headers).retry_after_s
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_the_date_of_the_answer_serves_when_no_clock_is_given():
    headers = {"date": "Tue, 14 Nov 2023 22:13:20 GMT", "retry-after": "Tue, 14 Nov 2023 22:14:20 GMT"}
    assert classify(429, headers, "", "x").retry_after_s == 60


def test_durations_in_words():
    assert duration_s("1h 2m 3s") == 3_723
    assert duration_s("500 milliseconds") == 0.5
    assert duration_s("never") is None


def test_a_provider_that_says_not_to_retry_is_believed():
    assert error(500, "", {"x-should-retry": "false"}).retryable is False
    assert error(500, "", {"x-should-retry": "true"}).retryable is True


def test_REL_038_a_web_page_is_never_shown_raw():
    page = "<!DOCTYPE html><html><head><title>Sign in\n to WiFi</title></head><body><script>x</script></body>"
    found = error(502, page)
    assert found.message == (
        'example.com answered 502 (server error): a web page came instead of an answer ("Sign in to WiFi")'
    )
    assert "<" not in error(502, "<html><body>no title</body></html>").message


def test_keys_are_never_shown():
    key = "very-secret-key-in-use"
    body = said(
        f"Incorrect API key provided: {key}; also sk-ant-abcdefghij, Bearer abcdefghijkl and AIza{'x' * 30}"
    )
    message = classify(401, {}, body, "example.com", key=key).message
    assert message.endswith("Incorrect API key provided: [key]; also [key], Bearer [key] and [key]")
    assert redact("nothing to hide", "") == "nothing to hide"


BROKEN_KEYS = {
    "colour": f"{OWN_KEY[:9]}\x1b[0m{OWN_KEY[9:]}",
    "title": f"{OWN_KEY[:9]}\x1b]0;x\x07{OWN_KEY[9:]}",
    "C1 control": f"{OWN_KEY[:9]}\x9b31m{OWN_KEY[9:]}",
    "zero width": "\u200b".join(OWN_KEY),
    "joiner": f"{OWN_KEY[:3]}\u2060{OWN_KEY[3:]}",
    "direction": f"{OWN_KEY[:9]}\u202e{OWN_KEY[9:]}",
    "nul": f"{OWN_KEY[:9]}\0{OWN_KEY[9:]}",
    "line end": f"{OWN_KEY[:12]}\n{OWN_KEY[12:]}",
    "spaces": " ".join(OWN_KEY),
    "tag character": f"{OWN_KEY[:9]}\U000e0041{OWN_KEY[9:]}",
    "tab": f"{OWN_KEY[:9]}\t{OWN_KEY[9:]}",
}


@pytest.mark.parametrize("echo", BROKEN_KEYS.values(), ids=BROKEN_KEYS.keys())
def test_ATTACK3_a_key_is_removed_although_unseen_signs_break_it(echo):
    for status, body in (
        (401, said(f"bad key {echo} here")),
        (400, json.dumps({"detail": [{"msg": echo}]})),
        (500, echo),
    ):
        told = classify(status, {}, body, "example.com", key=OWN_KEY).message
        seen = clean(told).replace(" ", "")
        assert OWN_KEY not in seen
        assert OWN_KEY[12:] not in seen


def test_long_messages_are_cut():
    assert len(error(400, said("x" * 10_000)).message) < 500


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{",
        b"null",
        b"123",
        "[[[[[[[[[[1]]]]]]]]]]",
        "{" * 100_000,
        {"error": None},
        {"error": {"code": "²"}},
        {"error": {"code": "9" * 5_000}},
        None,
        7,
        [[[]]],
    ],
)
def test_any_body_is_read_without_failing(body):
    assert error(500, body).kind == "server"
    read_body(body)


X1 = [
    (400, said("too_many_prompt_tokens", type="too_many_prompt_tokens", code=400), "context_overflow"),
    (
        400,
        '{"message":"too many tokens: total number of tokens in the prompt cannot exceed 128000"}',
        "context_overflow",
    ),
    (429, said("您的账户已欠费，请充值后重试。", code="1113"), "quota"),
    (200, '{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}', "quota"),
    (
        200,
        '{"base_resp":{"status_code":2049,"status_msg":"login fail: Please carry the API secret"}}',
        "auth",
    ),
    (412, said("Account example is suspended, possibly due to reaching the monthly spending limit"), "quota"),
    (
        400,
        said("Budget has been exceeded! Current cost: 1.2, Max budget: 1", type="budget_exceeded"),
        "quota",
    ),
    (403, said("Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"), "content_filter"),
    (400, said("The requested model is not supported", code="model_not_supported"), "not_found"),
    (400, said("模型不存在，请检查模型代码。", code="1211"), "not_found"),
    (400, said("系统检测到输入或生成内容可能包含不安全或敏感内容", code="1301"), "content_filter"),
    (
        400,
        '{"detail":[{"loc":["body",0],"msg":"Input should be a string","input":"monthly budget exceeded"}]}',
        "bad_request",
    ),
    (
        400,
        said("1 validation error for Request: 'the monthly budget was exceeded' is no number"),
        "bad_request",
    ),
]


@pytest.mark.parametrize(("status", "body", "kind"), X1)
def test_RU_X1_error_bodies_of_the_field(status, body, kind):
    found = error(status, body)
    assert (found.kind, found.retryable) == (kind, False)


def decoded(body: bytes) -> tuple[str, str]:
    reader = ReplyReader(ChatDecoder("example.com"), "example.com")
    pieces = [*reader.feed(body), *reader.end()]
    (found,) = [piece for piece in pieces if isinstance(piece, ProviderError)]
    return found.kind, found.message


def test_RU_X1_an_error_inside_a_stream_of_minimax_is_told():
    body = b'data: {"id":"x","choices":null,"base_resp":{"status_code":1008,"status_msg":"no balance"}}\n\n'
    kind, message = decoded(body)
    assert (kind, "no balance" in message) == ("quota", True)
    fine = b'data: {"choices":[{"delta":{"content":"a"}}],"base_resp":{"status_code":0,"status_msg":""}}\n\n'
    pieces = ReplyReader(ChatDecoder("example.com"), "example.com").feed(fine)
    assert not any(isinstance(piece, ProviderError) for piece in pieces)


@pytest.mark.parametrize(
    "line",
    [b'error: {"code":500,"message":"Compute error.","type":"server_error"}', b"error: Compute error."],
)
def test_RU_X1_the_error_field_of_llama_cpp_carries_the_reason(line):
    begun = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
    kind, message = decoded(begun + line + b"\n\n")
    assert (kind, "Compute error" in message) == ("server", True)


def test_RU_B21_a_403_says_that_the_key_may_not():
    assert error(403, said("nope")).message == (
        "example.com answered 403 (this key may not use this model): nope"
    )


@pytest.mark.parametrize(
    "told",
    [
        """litellm.RateLimitError: AnthropicException - b'{"error": {"message": "slow down"}}'""",
        """litellm.BadRequestError: OpenAIException - {"error": {"message": "slow down"}}. Bye""",
    ],
)
def test_RU_21_the_innermost_message_is_told(told):
    found = error(429, said(told, type="throttling_error"))
    assert (found.kind, found.message) == (
        "rate_limit",
        "example.com answered 429 (too many requests): slow down",
    )


@pytest.mark.parametrize("code", ["²", "9" * 5_000])
def test_ATTACK10_a_code_that_is_no_number_hides_no_message(code):
    body = read_body({"error": {"code": code, "message": "out of credit"}})
    assert (body.text, body.status) == ("out of credit", 0)
