"""Numbers and sizes for people."""

from buddy.agent.formatting import keep_ends, name_first


def test_a_long_text_keeps_its_ends_and_says_how_much_is_missing() -> None:
    assert keep_ends("short", 5) == "short"
    assert keep_ends("aaaa" + "-" * 1234 + "zzzz", 8) == "aaaa\n[… 1,234 characters left out …]\nzzzz"


def test_the_first_names_are_listed_and_the_others_counted() -> None:
    assert name_first([], 2) == ""
    assert name_first(["a", "b"], 2) == "a, b"
    assert name_first(["a", "b", "c"], 2) == "a, b and 1 more"
    assert name_first(["a"] * 1_235, 1) == "a and 1,234 more"
