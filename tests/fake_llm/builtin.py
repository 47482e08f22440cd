"""Named scripts for sessions by hand: put `[[script:name]]` into the prompt."""

from __future__ import annotations

from tests.fake_llm.script import (
    Cut,
    Empty,
    Html,
    HttpError,
    Pings,
    Replies,
    Reply,
    Reset,
    Stall,
    call,
    reply,
    think,
)

SECTION = """## Section {n}

The parser walks **every** token once, and `emit()` copies it; see [notes](notes.md).

- first item of list {n}
- second item with *emphasis* and wide characters: 日本語 🎉

```python
def handler_{n}(event):
    total = 0
    for index, row in enumerate(event["rows"]):
        total += row.value * index
    return {{"total": total}}
```

| key | value |
|-----|-------|
| a{n} | 1 |
| b{n} | 2 |

"""


def markdown(sections: int) -> str:
    """A long answer with headings, lists, code and tables."""
    return "".join(SECTION.format(n=number) for number in range(1, sections + 1)) + "The end.\n"


def reads(count: int) -> list[Reply]:
    """A turn of `count` tool rounds, each reading one file f0.txt, f1.txt …"""
    rounds = [reply(call("read_file", path=f"f{number}.txt"), chars=40) for number in range(count)]
    return [*rounds, reply("Done.")]


BUILTIN: dict[str, Replies] = {
    "hello": [reply("Hello from the fake model.")],
    "stream": [reply(markdown(12), chars=4, delay_s=0.01)],
    "fast": [reply(markdown(200), chars=4)],
    "think": [
        reply(think("Let me think about it. " * 20, signature="sig-1"), "The answer is 42.", delay_s=0.02)
    ],
    "tools": [
        reply("I look at the folder first.", call("list_files", path="."), delay_s=0.01),
        reply(call("write_file", path="notes.txt", content="one\ntwo\nthree\n"), delay_s=0.01),
        reply(call("read_file", path="notes.txt"), delay_s=0.01),
        reply(call("edit_file", path="notes.txt", old="two\n", new="zwei\n"), delay_s=0.01),
        reply("Now the tests.", call("run_shell", command="cat notes.txt && echo ok"), delay_s=0.01),
        reply("All **done**: `notes.txt` has three lines.", delay_s=0.01),
    ],
    "read": [reply(call("read_file", path="README.md")), reply("I have read it.")],
    "edit": [
        reply(call("read_file", path="notes.txt")),
        reply(call("edit_file", path="notes.txt", old="two\n", new="zwei\n")),
        reply("Changed."),
    ],
    "shell": [
        reply(call("run_shell", command="for i in 1 2 3; do echo $i; sleep 1; done")),
        reply("Counted."),
    ],
    "sleep": [reply(call("run_shell", command="sleep 60")), reply("Slept.")],
    "parallel": [
        reply(*(call("read_file", path=f"f{number}.txt") for number in range(4))),
        reply("Read all four."),
    ],
    "loop30": reads(30),
    "loop200": reads(200),
    "stall": [reply("alpha beta gamma delta " * 20, delay_s=0.01, fault=Stall(after=20))],
    "stall-args": [reply(call("write_file", path="big.txt", content="x" * 2000), fault=Stall(after=20))],
    "stall-first": [reply("late", fault=Stall(after=-1))],
    "pings": [reply("after the pings", fault=Pings(after=0, every_s=1))],
    "reset": [reply("one two three four five six", fault=Reset(after=3), times=1)],
    "cut": [reply("one two three four five six", fault=Cut(after=3), times=1)],
    "empty": [reply("here now", fault=Empty(), times=1)],
    "html": [reply("unreachable", fault=Html())],
    "429": [reply("Let in.", fault=HttpError(429, {"retry-after": "2"}), times=2)],
    "503": [reply("Up again.", fault=HttpError(503), times=2)],
    "401": [reply("unreachable", fault=HttpError(401))],
    "bad-args": [reply(call("read_file", '{"path": "README.md')), reply("I wrote broken arguments.")],
    "unknown-tool": [reply(call("fly_to_moon", distance=1)), reply("There is no such tool.")],
    "length": [reply("I ran out of", finish="length")],
}
