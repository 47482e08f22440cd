"""Secrets as their makers publish them: none is seen, alone, in JSON, in an assignment, in a line; what
people work with stays."""

from __future__ import annotations

import base64
import json
import random
import subprocess
from pathlib import Path

import pytest

from buddy.safety.secrets.redact import mask_spans, redact, secret_spans
from tests.support.secrets_published import IN_PLACE, SERVICE_ACCOUNT, WHOLE, made, uuid

ROOT = Path(__file__).resolve().parents[2]
AROUND = (
    "{}",
    "the key {} is old",
    '{{"a": "{}"}}',
    "x={};",
    "a\\n{}\\nb",
    "({})",
    "`{}`",
    "https://h.example/{}?a=1",
)


def rest_of(secret: str, text: str) -> list[str]:
    """The lines of a secret that are still to be read."""
    return [line for line in secret.split("\n") if len(line) > 15 and line in text]


@pytest.mark.parametrize("name", WHOLE)
def test_SEC_088_a_published_shape_is_found_wherever_it_stands(name: str) -> None:
    secret = WHOLE[name]
    for around in AROUND[: -1 if "//" in secret or " " in secret else None]:
        assert rest_of(secret, redact(around.format(secret))) == []
    assert rest_of(secret, json.loads(redact(json.dumps({"a": f"x\n{secret}\ny"})))["a"]) == []


@pytest.mark.parametrize("name", IN_PLACE)
def test_SEC_088_a_secret_is_found_by_what_stands_around_it(name: str) -> None:
    form, secret = IN_PLACE[name]
    text = form.format(secret)
    assert secret not in redact(f"before\n{text}\nafter\n")
    inside = json.dumps(secret)[1:-1]
    assert inside not in redact(json.dumps({"content": f"x\n{text}\n"}))
    numbered = "\n".join(f"{at:6}\t{line}" for at, line in enumerate(text.split("\n"), 99))
    assert secret not in redact(numbered)
    assert inside not in redact(json.dumps(numbered))
    assert redact(text).startswith(text[:4])


def test_a_service_account_loses_its_key_and_nothing_else() -> None:
    clean = json.loads(redact(SERVICE_ACCOUNT))
    assert clean["private_key"] == "⟨redacted: private key⟩\n"
    assert {**clean, "private_key": ""} == {**json.loads(SERVICE_ACCOUNT), "private_key": ""}


def test_painting_over_moves_nothing() -> None:
    text = f"ü {WHOLE['GitHub classic']} mid\n{WHOLE['RSA key']}\nend"
    painted = mask_spans(text, secret_spans(text))
    assert len(painted.encode()) == len(text.encode())
    assert painted.count("\n") == text.count("\n")
    assert painted.startswith(f"ü {'*' * 40} mid\n*****")
    assert painted.endswith("*\nend")


@pytest.mark.parametrize(
    "text",
    [
        f"commit {made(40, '0123456789abcdef')}\nAuthor: Ann <a@example.org>",
        f"index {made(7, '0123456789abcdef')}..{made(7, '0123456789abcdef', 5)} 100644",
        f"id: {uuid()}  trace={uuid(8)}",
        f"data:image/png;base64,{base64.b64encode(random.Random(4).randbytes(4000)).decode()}",
        f'"integrity": "sha512-{made(86)}==", "resolved": "https://packages.example.com/a/-/a-1.0.0.tgz"',
        f"numpy==2.1.0 --hash=sha256:{made(64, '0123456789abcdef')}",
        f"h1:{made(43)}= go.sum golang.org/x/text v0.3.0/go.mod",
        'function a(e,t){return e.token=t.key,n(function(r){r.password&&o(r.secret)})}var p={key:"value"}',
        "class TokenKey: token_count = 3; key_length = 2048; secret_santa = True",
        "['AVToken', 'Cbm2Lexer', 'MonkeyLexer', 'CbmBasicV2Lexer', 'ApiKey2Builder']",
        "client(v1_api_key=v1_api_key, api_key_2=_fresh_api_key_2, token_1=make_token_1())",
        "gpg --keyserver hkps://keys.openpgp.org --recv-keys 5BE8A3F6C8A5C01D106C0AD820B1A390B168D356",
        "all logins, not just when using password authentication or a login and password combination",
        '{"authorization": "Bearer hf_***", "x-api-key": "sk-12****1234"}',
        "<password>changeme</password> <token>none</token> <secret>${SECRET}</secret>",
        "name: API_TOKEN\n  value: <your token>",
        "define('DB_PASSWORD', 'password');",
        "docker login -u ann -p $TOKEN; sshpass -p password ssh x; mkdir -p a/b",
        'os.environ.get("OAUTH_CLIENT_ID", "26be6b09-91c5-47da-9861-d2d2bb7a7e36")',
        "live_view test_case_1 re_compile_this_pattern_again ion_channels sl.com EAA",
    ],
)
def test_what_people_work_with_stays_readable(text: str) -> None:
    assert redact(text) == text


def test_the_files_of_this_repository_stay_readable() -> None:
    names = subprocess.run(
        ["git", "ls-files", "buddy", ".ci"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    changed: list[str] = []
    for name in names.stdout.split():
        text = (ROOT / name).read_text(errors="replace")
        if redact(text) != text:
            changed.append(name)
    assert changed == []
