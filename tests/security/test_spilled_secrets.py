"""No secret of a long output reaches the disk, however it arrives; everything else stays where it is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from buddy.safety.secrets.redact import secret_spans
from buddy.workspace.processes.output import BLOCK_BYTES, MOST_BYTES, OutputBounds, OutputLog, SpillFile
from tests.support.secrets_for_tests import PEM_LINES, PRIVATE_KEYS, SHAPED
from tests.support.secrets_published import IN_PLACE, SERVICE_ACCOUNT, WHOLE

SECRETS = {**SHAPED, **{f"published {name}": text for name, text in WHOLE.items()}}


def flood() -> bytes:
    """Some hundred kilobytes of a build's words with every secret in them."""
    words = random.Random(5)
    lines: list[str] = []
    for text in [
        *SECRETS.values(),
        *[key for name, key in PRIVATE_KEYS.items() if not name.startswith("cut")],
        *(form.format(value) for form, value in IN_PLACE.values()),
    ]:
        lines += [f"[{words.random():.6f}] compiling module ü {words.randrange(10**6)}" for _ in range(60)]
        lines += [text, ""]
    return "\n".join([*lines, SERVICE_ACCOUNT, "the end\n"]).encode()


def pieces(data: bytes, seed: int) -> list[bytes]:
    cuts = random.Random(seed)
    parts: list[bytes] = []
    while data:
        size = cuts.choice((1, 7, 100, 4096, 65536))
        parts.append(data[:size])
        data = data[size:]
    return parts


def found_in(text: str) -> list[str]:
    whole = [name for name, secret in SECRETS.items() if secret in text]
    placed = [name for name, (_form, secret) in IN_PLACE.items() if secret in text]
    return whole + placed + [line for line in PEM_LINES if line in text]


@pytest.mark.parametrize("seed", range(6))
async def test_SEC_088_no_secret_of_a_long_output_reaches_the_disk(tmp_path: Path, seed: int) -> None:
    data = flood()
    log = OutputLog(str(tmp_path / "s" / "1.out"), OutputBounds(head_bytes=1000, tail_bytes=1000))
    for piece in pieces(data, seed):
        log.add(piece)
        log.catch_up()
        on_disk = tmp_path / "s" / "1.out"
        if seed == 0 and on_disk.exists() and len(piece) > 60_000:
            assert found_in(on_disk.read_text(errors="replace")) == []
    log.close()
    kept = (tmp_path / "s" / "1.out").read_bytes()
    assert found_in(kept.decode()) == []
    assert len(kept) == len(data)
    changed = [at for at, (one, other) in enumerate(zip(data, kept, strict=True)) if one != other]
    assert {kept[at] for at in changed} == {ord("*")}
    assert kept.count("compiling module ü".encode()) == data.count("compiling module ü".encode())
    assert await log.read(len(data) - 8, 8) == (len(data) - 8, b"the end\n")
    assert await log.read(200_000, 100) == (200_000, kept[200_000:200_100])


@pytest.mark.parametrize("name", ["GitHub classic", "AWS id and secret", "RSA key", "JWT"])
def test_a_secret_cut_at_every_byte_is_painted_over(tmp_path: Path, name: str) -> None:
    secret = WHOLE[name].encode()
    for cut in range(1, len(secret), 7):
        file = SpillFile(str(tmp_path / f"{cut}.out"), 10**9)
        file.add(b"x\n" * ((BLOCK_BYTES - cut) // 2) + secret[:cut])
        file.catch_up()
        file.add(secret[cut:] + b"\ny\n")
        file.close()
        kept = (tmp_path / f"{cut}.out").read_text()
        assert [line for line in secret.decode().split("\n") if len(line) > 15 and line in kept] == []
        assert kept.endswith("\ny\n")


KEY_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def private_key(lines: int, seeded: random.Random) -> str:
    body = ["".join(seeded.choices(KEY_CHARS, k=64)) for _ in range(lines)]
    return "\n".join(["-----BEGIN PRIVATE KEY-----", *body, "-----END PRIVATE KEY-----"])


@pytest.mark.parametrize("seed", range(40))
def test_SEC_088_secrets_at_random_places_in_random_pieces_are_painted_over(
    tmp_path: Path, seed: int
) -> None:
    seeded = random.Random(seed)
    secrets = [*seeded.sample(list(SECRETS.values()), 25), private_key(seeded.randrange(5, 280), seeded)]
    fillers = (
        lambda size: "".join(seeded.choices("abc def=ghi.jkl\n", k=size)),
        lambda size: "x" * size,
        lambda size: "é€😀 " * (size // 4),
        lambda size: "a line of a build\n" * (size // 18),
        lambda size: seeded.randbytes(size).decode("utf-8", "surrogateescape"),
    )
    text = ""
    for secret in secrets:
        text += seeded.choice(fillers)(seeded.randrange(3 * BLOCK_BYTES)) + f"\n{secret}\n"
    data = text.encode("utf-8", "surrogateescape")
    log = OutputLog(str(tmp_path / "s" / "1.out"), OutputBounds(head_bytes=1000, tail_bytes=1000))
    on_disk = tmp_path / "s" / "1.out"
    at = 0
    while at < len(data):
        size = seeded.choice((1, 10, 1000, 8192, 70_000))
        log.add(data[at : at + size])
        at += size
        while log.catch_up() and seeded.random() < 0.7:
            pass
    before = on_disk.read_bytes()
    log.close()
    kept = on_disk.read_bytes()
    assert kept.startswith(before), "what was written stays as it was"
    assert len(kept) == len(data)
    shown = kept.decode("utf-8", "surrogateescape")
    assert [line for secret in secrets for line in secret.split("\n")[:30] if _tells(line, shown)] == []
    assert {kept[place] for place in range(len(data)) if kept[place] != data[place]} == {ord("*")}


def _tells(line: str, shown: str) -> bool:
    return len(line) > 30 and "PRIVATE KEY" not in line and line in shown


async def test_what_waits_can_be_read_and_ends_up_in_the_file(tmp_path: Path) -> None:
    file = SpillFile(str(tmp_path / "1.out"), 10**9)
    file.add(b"ab" * 10)
    assert (await file.read(2, 4), (tmp_path / "1.out").exists()) == (b"abab", False)
    file.add(b"c" * BLOCK_BYTES)
    assert not file.catch_up()
    assert 0 < (tmp_path / "1.out").stat().st_size < file.size
    assert await file.read(0, 4) == b"abab"
    file.close()
    assert (tmp_path / "1.out").stat().st_size == file.size == BLOCK_BYTES + 20


def test_bytes_that_are_no_text_come_through_unchanged(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(300_000)
    file = SpillFile(str(tmp_path / "1.out"), 10**9)
    for piece in pieces(data, 3):
        file.add(piece)
    file.close()
    kept = (tmp_path / "1.out").read_bytes()
    assert len(kept) == len(data)
    assert sum(one != other for one, other in zip(data, kept, strict=True)) < 100


def test_the_persons_own_keys_are_painted_over_with_a_finder_that_knows_them(tmp_path: Path) -> None:
    own = "schlüssel-ohne-form"
    file = SpillFile(str(tmp_path / "1.out"), 10**9, lambda text: secret_spans(text, [own]))
    file.add(f"before {own} after\n".encode())
    file.add(b"z" * (2 * BLOCK_BYTES))
    file.close()
    kept = (tmp_path / "1.out").read_bytes()
    assert kept.startswith(b"before " + b"*" * len(own.encode()) + b" after\nzz")


def test_a_key_that_never_ends_does_not_wait_for_ever(tmp_path: Path) -> None:
    file = SpillFile(str(tmp_path / "1.out"), 10**9)
    file.add(b"-----BEGIN RSA PRIVATE KEY-----\n" + b"A" * 64 + b"\n")
    for _ in range(2000):
        file.add(b"Ab0/" * 16 + b"\n")
        file.catch_up()
    assert file.size > 3 * MOST_BYTES
    assert (tmp_path / "1.out").stat().st_size > BLOCK_BYTES
    file.close()
    assert (tmp_path / "1.out").stat().st_size == file.size


def test_the_cap_holds_and_a_disk_that_refuses_is_the_callers(tmp_path: Path) -> None:
    file = SpillFile(str(tmp_path / "1.out"), 50_000)
    for _ in range(20):
        file.add(b"x" * 10_000)
    file.close()
    assert (tmp_path / "1.out").stat().st_size == 50_000
    full = SpillFile("/dev/full", 10**9)
    full.add(b"x" * BLOCK_BYTES)
    with pytest.raises(OSError, match="File exists"):
        full.catch_up()
    full.abandon()
