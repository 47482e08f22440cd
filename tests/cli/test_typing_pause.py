"""Standing back for somebody who types: until shortly after the last key, and two seconds in all."""

from __future__ import annotations

from buddy.cli.typing_pause import AFTER_KEY_S, IN_ALL_S, TypingPause


class Typist:
    """Somebody whose last key was at `typed_at`, and who presses another at each time of `keys`."""

    def __init__(self, *keys: float) -> None:
        self.now = 10.0
        self.typed_at = float("-inf")
        self.keys = list(keys)
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds
        while self.keys and self.keys[0] <= self.now:
            self.typed_at = self.keys.pop(0)

    def pause(self) -> TypingPause:
        return TypingPause(lambda: self.typed_at, lambda: self.now, self.sleep)


def test_while_nobody_types_work_goes_on_at_once() -> None:
    typist = Typist()
    pause = typist.pause()
    pause()
    typist.typed_at = typist.now - AFTER_KEY_S
    pause()
    assert typist.slept == []


def test_work_waits_until_a_moment_after_the_last_key() -> None:
    typist = Typist(10.04, 10.08)
    typist.typed_at = 10.0
    typist.pause()()
    assert typist.slept == [0.05, 0.04, 0.04]
    assert round(typist.now, 3) == 10.13


def test_somebody_who_types_all_the_time_holds_work_up_for_two_seconds_in_all() -> None:
    typist = Typist(*(10 + key / 50 for key in range(1000)))
    typist.typed_at = 10.0
    pause = typist.pause()
    pause()
    assert round(typist.now, 3) == 10 + IN_ALL_S
    pause()
    assert round(typist.now, 3) == 10 + IN_ALL_S
