"""A proxy in a process of its own: HTTP (forwarding and CONNECT) and SOCKS5 on one port, for tests.

    python tests/support/proxy_process.py UPSTREAM_PORT [USER:PASSWORD]

Whatever name is asked for, it connects to that port of this machine: names need not exist. It prints its own
port, then one line for each request.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import struct
import sys


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()


class Proxy:
    def __init__(self, upstream: int, login: str) -> None:
        self._upstream = upstream
        self._login = login

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            first = await reader.readexactly(1)
            serve = self._socks if first == b"\x05" else self._http
            await serve(first, reader, writer)
        writer.close()

    async def _http(self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = first + await reader.readuntil(b"\r\n\r\n")
        print(head.split(b"\r\n")[0].decode(), flush=True)
        wanted = b"proxy-authorization: basic " + base64.b64encode(self._login.encode()).lower()
        if self._login and wanted not in head.lower():
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            return
        there, to_server = await asyncio.open_connection("127.0.0.1", self._upstream)
        if head.startswith(b"CONNECT "):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            to_server.write(head)
        await asyncio.gather(pump(reader, to_server), pump(there, writer))

    async def _socks(self, _first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        methods = await reader.readexactly((await reader.readexactly(1))[0])
        method = b"\x02" if self._login else b"\x00"
        writer.write(b"\x05" + (method if method in methods else b"\xff"))
        if self._login:
            _version, size = await reader.readexactly(2)
            user = await reader.readexactly(size)
            password = await reader.readexactly((await reader.readexactly(1))[0])
            is_right = f"{user.decode()}:{password.decode()}" == self._login
            writer.write(b"\x01" + (b"\x00" if is_right else b"\x01"))
            if not is_right:
                await writer.drain()
                return
        kind = (await reader.readexactly(4))[3]
        sizes = {1: 4, 4: 16}
        size = sizes[kind] if kind in sizes else (await reader.readexactly(1))[0]
        host = await reader.readexactly(size)
        (port,) = struct.unpack(">H", await reader.readexactly(2))
        print(f"SOCKS {kind} {host.decode('latin-1')} {port}", flush=True)
        try:
            there, to_server = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.write(b"\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00")  # connection refused
            await writer.drain()
            return
        writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50")
        await asyncio.gather(pump(reader, to_server), pump(there, writer))


async def main() -> None:
    login = sys.argv[2] if len(sys.argv) > 2 else ""
    server = await asyncio.start_server(Proxy(int(sys.argv[1]), login).serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
