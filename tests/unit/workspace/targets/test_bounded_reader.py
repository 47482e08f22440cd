"""Output of a local client: nothing of the reports is lost, however much else comes."""

from __future__ import annotations

import subprocess

from buddy.workspace.targets.bounded_reader import FREE_BYTES, MAX_KEPT_BYTES, BoundedReader


def written_by(script: str, prefix: str = "") -> BoundedReader:
    """Return a reader that a finished script wrote to."""
    reader = BoundedReader(prefix)
    with subprocess.Popen(["sh", "-c", script], stderr=reader.writing) as process:
        reader.close_writing()
        process.wait()
    return reader


def test_reports_are_found_before_and_behind_a_flood() -> None:
    flood = f"head -c {2 * FREE_BYTES} /dev/zero | tr '\\0' 'x'"
    reader = written_by(f"exec >&2; echo 'tag a'; {flood}; echo; echo 'tag b'; echo other", "tag ")
    assert reader.reports() == "tag a\ntag b\n"
    assert reader.last_words().endswith("x\ntag b\nother\n")
    assert len(reader.last_words()) == MAX_KEPT_BYTES
    reader.close()


def test_reports_without_end_are_bounded() -> None:
    reader = written_by("exec >&2; yes 'tag more' | head -n 100000", "tag ")
    assert 0 < len(reader.reports()) <= MAX_KEPT_BYTES
    reader.close()


def test_what_was_read_stays_when_it_is_closed() -> None:
    reader = written_by("echo 'last words' >&2")
    reader.close()
    assert reader.last_words() == "last words\n"
