import os
from pathlib import Path

import pytest

from buddy.extend.mcp.definitions import DefinitionError, read_server
from buddy.extend.mcp.digests import MAX_SCRIPT_BYTES, definition_digest


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("mcp.example.com", "http https://mcp.example.com/mcp"),
        ("faß.de", "http https://faß.de/mcp (xn--fa-hia.de)"),  # another site than fass.de
        ("p\u0430ypal.com", "http https://p\u0430ypal.com/mcp (xn--pypal-4ve.com)"),
        ("ä..b", "http https://ä..b/mcp (not a host name)"),
    ],
)
def test_the_host_of_an_address_is_shown_as_it_is_looked_up(host: str, shown: str) -> None:
    server = read_server("web", {"type": "http", "url": f"https://{host}/mcp"}, "user", "mcp.json")
    assert server.summary() == shown


def test_the_line_a_person_approves_begins_with_the_risks_and_cuts_only_the_command() -> None:
    entry = {
        "command": "npx",
        "args": ["-y", "x" * 300],
        "env": {"TOKEN": "${GITHUB_TOKEN}", "LD_PRELOAD": "./evil.so", "SECRET": "hidden"},
        "cwd": "/",
        "write": ["~/", "/etc"],
        "sandbox": False,
    }
    shown = read_server("s", entry, "project", ".mcp.json").summary(120)
    risks = (
        "outside the sandbox; may write ~/, /etc; starts in /; reads GITHUB_TOKEN; "
        "environment LD_PRELOAD=./evil.so, SECRET, TOKEN; "
    )
    assert shown.startswith(f"{risks}npx -y xxx")
    assert len(shown) <= len(risks) + 40
    assert shown.endswith("…")


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ({"command": "npx"}, "npx"),
        ({"command": "sh", "sandbox": False}, "outside the sandbox; sh"),
        ({"command": "evil", "cwd": "a; npx good"}, 'starts in "a; npx good"; evil'),
        ({"command": "evil", "write": ["/etc, none"]}, 'may write "/etc, none"; evil'),
        ({"command": "evil", "env": {"A; npx good": ""}}, 'environment "A; npx good"; evil'),
        ({"command": "evil", "cwd": "a\n\x1b[2J"}, 'starts in "a\\n\\u001b[2J"; evil'),
        ({"command": "s", "env": {"NODE_OPTIONS": ""}}, 'environment NODE_OPTIONS=""; s'),
        ({"command": "s", "cwd": "${HOME}"}, "starts in ${HOME}; reads HOME; s"),
        ({"url": "https://h/mcp", "headers": {"A": "${K}"}}, "reads K; headers A; http https://h/mcp"),
    ],
)
def test_no_word_of_a_definition_passes_for_another_part_of_the_line(
    entry: dict[str, object], shown: str
) -> None:
    assert read_server("s", entry, "project", ".mcp.json").summary(120) == shown


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "python3", "args": ["tools/server.py"]},
        {"command": "./tools/server.py"},
        {"command": "python3", "args": ["server.py"], "cwd": "tools"},
        {"command": "python3", "args": ["server.py"], "cwd": "./tools/../tools"},
        {"command": "python3", "args": ["server.py"], "cwd": "${D:-tools}"},
        {"command": "./server.py", "cwd": "tools"},
        {"command": "python3", "args": ["${S:-tools/server.py}"]},
        {"command": "python3", "args": ["${S:-tools}/server.py"]},
        {"command": "${S:-tools/server.py}"},
        {"command": "node", "args": ["--import=./tools/server.py"]},
        {"command": "node", "args": ["--import=file=tools/server.py"]},
        {"command": "node", "args": ["--import=${S:-./tools/server.py}"]},
        {"command": "node", "args": ["-r./tools/server.py"]},
        {"command": "env", "args": ["A=b", "NODE=tools/server.py"]},
        {"command": "sh", "args": ["-c", "exec tools/server.py --fast"]},
        {"command": "node", "env": {"NODE_OPTIONS": "--require=./tools/server.py"}},
        {"command": "node", "env": {"LD_PRELOAD": "./tools/server.py"}},
    ],
)
def test_a_changed_script_changes_the_digest(tmp_path: Path, entry: dict[str, object]) -> None:
    script = tmp_path / "tools" / "server.py"
    script.parent.mkdir()
    script.write_text("good")
    definition = read_server("s", entry, "project", ".mcp.json")
    before = definition_digest(definition, str(tmp_path))
    assert definition_digest(definition, str(tmp_path)) == before
    script.write_text("evil")
    assert definition_digest(definition, str(tmp_path)) != before


def test_a_changed_script_that_is_too_large_to_be_read_changes_the_digest(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.touch()
    os.truncate(script, MAX_SCRIPT_BYTES + 1)
    definition = read_server("s", {"command": "python3", "args": ["server.py"]}, "project", ".mcp.json")
    before = definition_digest(definition, str(tmp_path))
    assert definition_digest(definition, str(tmp_path)) == before
    status = script.stat()
    with script.open("r+b") as file:
        file.write(b"evil")
    os.utime(script, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert definition_digest(definition, str(tmp_path)) != before


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@ss@h/", "https://…@h/"),
        ("https://u:p@ss@w@h", "https://…@h"),
        ("https://h/mcp?apiKey=sk-live-123", "https://h/mcp?apiKey=…"),
        ("https://h/mcp?a=1&key=sk-live-123==", "https://h/mcp?a=…&key=…"),
        ("https://h?sk-live-123", "https://h?…"),
        ("https://h/mcp?key=${KEY}", "https://h/mcp?key=${KEY}"),
        ("https://h/mcp?key=${KEY:-sk-live-123}", "https://h/mcp?key=…"),
        ("https://h/mcp#sk-live-123", "https://h/mcp#…"),
        ("https://h/@scope/mcp", "https://h/@scope/mcp"),
        ("https://u:p@h?x=a@b/c", "https://…@h?x=…"),
    ],
)
def test_an_address_is_shown_without_secrets(url: str, shown: str) -> None:
    assert read_server("s", {"url": url}, "user", "mcp.json").summary().endswith(f"http {shown}")


def test_the_document_of_a_client_is_an_https_address_with_a_path() -> None:
    entry = {"url": "https://a", "oauth": {"clientMetadataUrl": "https://me.example/buddy.json"}}
    assert read_server("s", entry, "user", "f").oauth.document == "https://me.example/buddy.json"


@pytest.mark.parametrize(
    "address",
    [
        *(
            "http://me.example/c.json",
            "https://me.example",
            "https://me.example/",
            "https:///c.json",
            "c.json",
        ),
        *(
            "https://u:p@me.example/c",
            "https://me.example/c#f",
            "https://me.example/a/../c",
            "https://[::1/c",
        ),
        *(
            "https://me.example/c d",
            "https://me.example/\u202ec",
            "file:///etc/passwd",
            "https://p\u0430.org/c",
        ),
    ],
)
def test_an_address_that_is_no_document_is_refused(address: str) -> None:
    entry = {"url": "https://a", "oauth": {"clientMetadataUrl": address}}
    with pytest.raises(DefinitionError, match="clientMetadataUrl"):
        read_server("s", entry, "user", "f")
