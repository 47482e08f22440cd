"""The screen measured without the rest of buddy: a fake event source, the real REPL, a real pty.

python tests/bench/render_bench.py start        first frame, first echo, memory
python tests/bench/render_bench.py burst        20,000 deltas at full speed: CPU, bytes
python tests/bench/render_bench.py idle         key to echo, nothing running
python tests/bench/render_bench.py stream [N]   key to echo while 100 deltas/s stream in each of N tasks
python tests/bench/render_bench.py escape       Esc to the intent
python tests/bench/render_bench.py demo         to look at: streams until Ctrl+D
"""

from __future__ import annotations

import os
import sys
import time

from buddy.workspace.sandbox.status import SandboxStatus

MARKDOWN = (
    "## Section {k}\n\nThe parser walks **every** token once, and `emit()` copies it; see [notes](n.md).\n\n"
    "- first item of list {k}\n- second item with *emphasis*\n\n"
    "```python\ndef handler_{k}(event, ctx=None):\n    total = 0\n"
    '    for i, row in enumerate(event["rows"]):\n        total += row.value * i  # weight {k}\n'
    '    return {{"total": total, "ok": True}}\n```\n\n'
    "| key | value |\n|-----|-------|\n| a{k} | 1 |\n| b{k} | 2 |\n\n"
)
KEYS = [chr(code) for code in (*range(0x410, 0x450), *range(0x48A, 0x500))]


def deltas(count: int, size: int = 4) -> list[str]:
    text = "".join(MARKDOWN.format(k=k) for k in range(count * size // 300 + 1))[: count * size]
    return [text[at : at + size] for at in range(0, len(text), size)]


def child(mode: str, tasks: int) -> None:
    """The program under measurement. F-keys of the parent are lines: `go` begins, `quit` ends."""
    import asyncio
    from collections.abc import AsyncGenerator

    from buddy.agent import events as ev
    from buddy.agent.messages import Text, UserMessage
    from buddy.repl.app import AppSettings
    from buddy.repl.intents import Cancel, Intent, Prompt
    from buddy.repl.render.style import choose_look
    from buddy.repl.start import open_repl
    from buddy.repl.view.state import SessionFacts

    facts = SessionFacts(1, "ask", "openai/gpt-5.2", SandboxStatus(3), (), {1: "bench"})
    begin = asyncio.Event()

    def act(intent: Intent) -> None:
        match intent:
            case Prompt(text="go"):
                begin.set()
            case Cancel():
                os.write(2, b"")
                with open(os.environ["BENCH_OUT"], "a") as file:
                    file.write(f"cancel {time.monotonic()}\n")
            case _:
                repl.end("left")

    async def source() -> AsyncGenerator[list[ev.TaskEvent], None]:
        await begin.wait()
        seq = 0

        def event(task: int, what: ev.AgentUiEvent) -> ev.TaskEvent:
            nonlocal seq
            seq += 1
            return ev.TaskEvent(task, seq, time.monotonic(), what)

        numbers = range(1, tasks + 1)
        for task in numbers:
            yield [event(task, ev.TurnStarted((UserMessage("u", (Text("go"),), "prompt"),)))]
            yield [event(task, ev.ReplyStarted("r", "m"))]
        if mode == "burst":
            pieces = deltas(20_000)
            for at in range(0, len(pieces), 6):
                yield [event(1, ev.TextDelta("r", 0, piece)) for piece in pieces[at : at + 6]]
                await asyncio.sleep(0)
        else:
            for piece in deltas(60_000):
                yield [event(task, ev.TextDelta("r", 0, piece)) for task in numbers]
                await asyncio.sleep(0.01)
        yield [
            event(1, ev.TextDelta("r", 0, "\n\nZQXEND\n\n")),
            event(1, ev.TurnFinished("completed", "", "", 1, 1.0)),
        ]

    look = choose_look(environ=os.environ, color="auto", theme="default", encoding="utf-8", is_terminal=True)
    settings = AppSettings(
        look=look,
        vi=False,
        title=False,
        bell=False,
        notifications="off",
        progress=False,
        history_path=None,
        environ=os.environ,
    )
    lines: list[str] = []
    repl = open_repl(settings=settings, facts=lambda: facts, act=act, log=lines.append)
    if mode == "demo":
        begin.set()
    asyncio.run(repl.run(source()))
    for line in lines[-20:]:
        print(line)


class Pty:
    """The child on a pty; a thread keeps what it writes, with times."""

    def __init__(self, mode: str, tasks: int, out: str) -> None:
        import fcntl
        import pty
        import struct
        import termios
        import threading

        self.begun = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["BENCH_OUT"] = out
            os.execv(sys.executable, [sys.executable, __file__, "child", mode, str(tasks)])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.chunks: list[tuple[float, bytes]] = []
        self.change = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return
            with self.change:
                self.chunks.append((time.monotonic(), data))
                self.change.notify_all()

    def send(self, text: str) -> float:
        at = time.monotonic()
        os.write(self.fd, text.encode())
        return at

    def seen(self, text: str, since: int, timeout: float) -> float | None:
        deadline = time.monotonic() + timeout
        at, tail = since, b""
        while True:
            with self.change:
                while at >= len(self.chunks):
                    if not self.change.wait(max(0.0, deadline - time.monotonic())):
                        return None
                when, data = self.chunks[at]
            at += 1
            if text.encode() in tail + data:
                return when
            tail = data[-40:]

    def cpu(self) -> float:
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def typed(term: Pty, count: int, pause: float) -> list[float]:
    """Milliseconds from key to echo."""
    times: list[float] = []
    for index in range(count):
        key, mark = KEYS[index % len(KEYS)], len(term.chunks)
        sent = term.send(key)
        seen = term.seen(key, mark, 2.0)
        times.append((seen - sent) * 1000 if seen else 2000.0)
        if index % 40 == 39:
            term.send("\x7f" * 40)
            time.sleep(0.3)
        time.sleep(pause)
    return sorted(times)


def begin(term: Pty) -> None:
    term.send("go")
    time.sleep(0.3)
    term.send("\r")


def first_echo(term: Pty) -> float | None:
    """Probe keys until one is echoed, as soon as the program has switched echo off."""
    import termios

    for index in range(300):
        if termios.tcgetattr(term.fd)[3] & termios.ECHO:
            time.sleep(0.004)
            continue
        term.send(KEYS[index % len(KEYS)])
        if (seen := term.seen(KEYS[index % len(KEYS)], 0, 0.03)) is not None:
            term.send("\x03")
            return seen - term.begun
    return None


def main(mode: str, tasks: int) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile() as out:
        term = Pty(mode, tasks, out.name)
        echo = first_echo(term)
        time.sleep(1.5)
        idle = term.memory()
        if mode == "start":
            print(f"first echo {echo:.3f} s, memory {idle:.1f} MB, cpu {term.cpu():.2f} s")
        elif mode == "burst":
            before, mark, at = term.cpu(), len(term.chunks), time.monotonic()
            begin(term)
            term.seen("ZQXEND", mark, 60)
            wall = time.monotonic() - at - 0.3
            time.sleep(0.5)
            written = sum(len(data) for _at, data in term.chunks[mark:])
            print(
                f"cpu {term.cpu() - before:.2f} s, wall {wall:.2f} s, {written / 80_000:.2f} bytes per byte, "
                f"{len(term.chunks) - mark} writes, memory {idle:.0f} to {term.memory():.0f} MB"
            )
        elif mode == "escape":
            begin(term)
            time.sleep(1.0)
            sent = term.send("\x1b")
            time.sleep(0.6)
            print(f"Esc to intent {(float(out.read().split()[1]) - sent) * 1000:.0f} ms")
        else:
            if mode == "stream":
                begin(term)
                time.sleep(1.5)
            before, at = term.cpu(), time.monotonic()
            times = typed(term, 160, 0.03 if mode == "idle" else 0.1)
            share = (term.cpu() - before) / (time.monotonic() - at)
            p50, p95 = times[len(times) // 2], times[int(len(times) * 0.95)]
            print(f"{mode}: p50 {p50:.2f} ms, p95 {p95:.2f} ms, max {times[-1]:.1f} ms, cpu {share:.0%}")
        os.kill(term.pid, 15)
        os.waitpid(term.pid, 0)


if __name__ == "__main__":
    if sys.argv[1] == "child":
        child(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "demo":
        child("demo", 1)
    else:
        main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
