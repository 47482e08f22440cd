"""Secrets leave text before it is written down; everything that only looks like one stays."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.agent.messages import (
    NO_USAGE,
    AssistantMessage,
    Call,
    Image,
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
)
from buddy.safety.secrets.redact import redact, redact_message
from tests.support.secrets_for_tests import HARMLESS, PEM_LINES, PLACED, PRIVATE_KEYS, SHAPED

SECRET = SHAPED["GitHub"]
MARK = "⟨redacted: GitHub token⟩"


def in_every_setting(secret: str) -> list[str]:
    return [
        secret,
        f"the key is {secret}.",
        f'"{secret}"',
        f"KEY={secret}\nNEXT=1",
        json.dumps({"content": f"line\n{secret}\nline"}),
        f"({secret})",
        f"--flag={secret}",
        f"ü{secret}…",
    ]


@pytest.mark.parametrize("name", SHAPED)
def test_SEC_088_known_shapes_are_taken_out_wherever_they_stand(name: str) -> None:
    secret = SHAPED[name]
    needle = secret.removeprefix("AccountKey=").rpartition("sig=")[2]
    for text in in_every_setting(secret):
        clean = redact(text)
        assert needle[:40] not in clean
        assert "⟨redacted: " in clean
        assert needle.rstrip("=")[-8:] not in clean


@pytest.mark.parametrize("name", PLACED)
def test_SEC_088_values_are_taken_out_where_their_place_names_them(name: str) -> None:
    template, secret = PLACED[name]
    before, after = template.split("%s")
    for start, end in (("", ""), ("x = 1\n", "\ny = 2")):
        clean = redact(f"{start}{before}{secret}{after}{end}")
        assert secret not in clean
        assert re.fullmatch(re.escape(start + before) + "⟨redacted: .*⟩" + re.escape(after + end), clean)


@pytest.mark.parametrize("name", PRIVATE_KEYS)
def test_private_keys_go_whole_or_cut(name: str) -> None:
    text = f"before\n{PRIVATE_KEYS[name]}\nafter"
    clean = redact(text)
    assert [line for line in PEM_LINES if line in clean] == []
    assert clean.startswith("before")
    assert clean.endswith("after")
    assert "⟨redacted: private key⟩" in clean


def test_private_keys_that_follow_each_other_are_all_taken() -> None:
    key = PRIVATE_KEYS["RSA"]
    assert redact(f"{key}\n{key}\nx") == "⟨redacted: private key⟩\n⟨redacted: private key⟩\nx"
    cut = "-----BEGIN PRIVATE KEY-----"
    assert redact(f"{cut} and {cut}") == "⟨redacted: private key⟩and ⟨redacted: private key⟩"
    assert redact("the line -----END PRIVATE KEY----- ends it") == "the line ⟨redacted: private key⟩ ends it"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redact(text) == text
    assert redact(f"a\n{text}\nb") == f"a\n{text}\nb"


def test_the_kind_is_named_and_the_rest_of_the_text_stays() -> None:
    assert redact(f"use {SECRET} or {SECRET}!") == f"use {MARK} or {MARK}!"
    assert redact(f"GITHUB_TOKEN={SECRET}") == f"GITHUB_TOKEN={MARK}"


def test_a_pair_of_access_key_and_secret_goes_together() -> None:
    pair = SHAPED["AWS access key"] + "," + PLACED["AWS secret"][1]
    assert redact(f"id,secret\n{pair}\n") == "id,secret\n⟨redacted: AWS key⟩\n"


def test_the_persons_own_keys_are_taken_out_literally() -> None:
    own = "my/odd key+1"
    assert redact(f"a {own} b my%2Fodd%20key%2B1", (own,)) == (
        "a ⟨redacted: configured key⟩ b ⟨redacted: configured key⟩"
    )
    assert redact("short", ("short", "")) == "short"


@pytest.mark.parametrize(
    "between", ["\u200b", "\x1b[0m", "\x1b]0;x\x07", "\x9b1m", "\0", "\u2060\u00ad", "\ufeff", "\x1b(B", "\r"]
)
def test_ATTACK3_an_own_key_is_found_although_unseen_signs_break_it(between: str) -> None:
    own = "Zq7-vV4pLw9TnB2xKd8R"
    for broken in (between.join(own), own[:5] + between + own[5:]):
        assert redact(f"a {broken} b", (own,)) == "a ⟨redacted: configured key⟩ b"
    assert redact(f"a {own[:5]}{between}{own[6:]} b", (own,)).startswith("a Zq7-v")


def test_a_message_keeps_everything_but_the_secret() -> None:
    opaque = {"token": SECRET}
    message = AssistantMessage(
        "m1",
        (
            Thinking(f"hm {SECRET}", "signed", opaque),
            Thinking("hm", "signed", opaque),
            Text(f"it is {SECRET}", opaque),
            Call("c1", "write_file", json.dumps({"text": f"K\n{SECRET}"}), opaque),
            Call("c2", "time", "{}"),
            ServerItem(opaque),
        ),
        "model",
        "chat",
        "calls",
        NO_USAGE,
    )
    assert redact_message(message) == AssistantMessage(
        "m1",
        (
            Thinking(f"hm {MARK}", ""),
            Thinking("hm", "signed", opaque),
            Text(f"it is {MARK}", opaque),
            Call("c1", "write_file", json.dumps({"text": f"K\n{MARK}"}, ensure_ascii=False), opaque),
            Call("c2", "time", "{}"),
            ServerItem(opaque),
        ),
        "model",
        "chat",
        "calls",
        NO_USAGE,
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            UserMessage("u", (Text(f"my key: {SECRET}"), Image("image/png", SECRET)), "prompt"),
            UserMessage("u", (Text(f"my key: {MARK}"), Image("image/png", SECRET)), "prompt"),
        ),
        (ToolMessage("t", "c", "read_file", SECRET, "ok"), ToolMessage("t", "c", "read_file", MARK, "ok")),
    ],
)
def test_prompts_and_results_are_redacted(message: Message, expected: Message) -> None:
    assert redact_message(message) == expected


def test_a_message_without_secrets_is_the_same_object() -> None:
    for message in (
        UserMessage("u", (Text("hello"),), "prompt"),
        ToolMessage("t", "c", "read_file", "text", "ok"),
        AssistantMessage("m", (Text("x"), Call("c", "n", "{}")), "model", "chat", "stop", NO_USAGE),
    ):
        assert redact_message(message) is message


def test_a_provider_error_that_echoes_the_key_is_safe_to_show() -> None:  # SEC-089
    body = f'{{"error":{{"message":"Incorrect API key provided: {SHAPED["OpenAI project"]}."}}}}'
    assert redact(body) == '{"error":{"message":"Incorrect API key provided: ⟨redacted: OpenAI key⟩."}}'


def test_redacted_arguments_are_still_json() -> None:
    for secret in SHAPED.values():
        text = json.dumps({"content": f'a\n{secret}\n"b"', "path": "x"})
        assert json.loads(redact(text))["path"] == "x"
    for template, secret in PLACED.values():
        text = json.dumps({"content": f"a\n{template % secret}\n", "path": "x"})
        assert json.loads(redact(text))["path"] == "x"
        assert secret not in redact(text).replace('\\"', '"')


def test_redacting_twice_changes_nothing() -> None:
    everything = "\n".join([*SHAPED.values(), *(t % s for t, s in PLACED.values()), *PRIVATE_KEYS.values()])
    once = redact(everything)
    assert redact(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "key" * 100_000,
        "secret:" * 50_000,
        "password: " * 50_000,
        "://" * 100_000,
        "://a:" * 80_000,
        "eyJ" * 100_000,
        "AKIA" * 100_000,
        "$6$a," * 60_000,
        "-----BEGIN PRIVATE KEY-----" * 5_000,
        "-----END PRIVATE KEY-----" * 5_000,
        "A" * 300_000 + "-----END PRIVATE KEY-----",
        "login a " * 50_000 + "password",
        "MNO.MNO." * 50_000,
        "Private-Lines: 1\n" + "A" * 300_000,
    ],
    ids=lambda text: text[:12],
)
def test_no_text_takes_long(text: str) -> None:
    redact(text)  # the time limit of the suite is the check


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from([*"ab1=:/@.-_ \n\"'\\⟨⟩{}$"]), max_size=60))
def test_any_text_survives_being_redacted(text: str) -> None:
    once = redact(f"token {text} password={text}")
    assert redact(once) == once


def test_messages_on_disk_hold_none_of_the_shapes() -> None:
    for secret in SHAPED.values():
        message = ToolMessage("t", "c", "run_shell", f"$ cat .env\nKEY={secret}\n", "ok")
        assert secret[-12:] not in json.dumps(msgspec.to_builtins(redact_message(message)))
