"""An MCP server of plain lines, honest or hostile by its first argument; nothing of the protocol library."""

import json
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "honest"
TOOL = {
    "name": "echo",
    "description": "Repeat a text.\x1b[31m\u202e",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "annotations": {"readOnlyHint": True},
}


def say(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(number: object, result: object) -> None:
    say({"jsonrpc": "2.0", "id": number, "result": result})


def call(number: object, arguments: dict[str, object]) -> None:
    match MODE:
        case "crash":
            sys.stderr.write("server: out of luck\n")
            sys.exit(3)
        case "never":
            return
        case "flood":
            for _ in range(100):
                sys.stdout.write("x" * 1_000_000 + "\n")
            time.sleep(60)
        case "huge":
            sys.stdout.write("y" * 100_000_000)
            time.sleep(60)
        case _:
            text = f"you said {arguments['text']}\x1b]0;owned\x07"
            answer("other", {"content": [{"type": "text", "text": "wrong id"}]})
            answer(number, {"content": [{"type": "text", "text": text}]})
            answer(number, {"content": [{"type": "text", "text": "a second answer"}]})


for line in sys.stdin:
    message = json.loads(line)
    number = message.get("id")
    match message.get("method"):
        case "initialize":
            if MODE == "log":
                sys.stdout.write("listening on stdout, as some do\n")
            answer(
                number,
                {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "plain", "version": "1"},
                },
            )
        case "tools/list":
            answer(number, {"tools": [TOOL]})
        case "tools/call":
            call(number, message["params"]["arguments"])
        case _ if number is not None:
            say({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no such method"}})
