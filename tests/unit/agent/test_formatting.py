"""Numbers and sizes for people."""

from buddy.agent.formatting import keep_ends


def test_a_long_text_keeps_its_ends_and_says_how_much_is_missing() -> None:
    assert keep_ends("short", 5) == "short"
    assert keep_ends("aaaa" + "-" * 1234 + "zzzz", 8) == "aaaa\n[… 1,234 characters left out …]\nzzzz"
