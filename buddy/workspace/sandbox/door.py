"""The holder of a session's network namespace: opens the proxy's listening socket in it, hands it out, and
waits.

Run as a script in its own namespace, `python -I -S door.py DESCRIPTOR PORT`: listens on the loopback address
of that namespace, sends the listening socket and its process id through the descriptor, and becomes a process
that waits for the descriptor to close. The namespace lives as long as this process.
"""

import array
import os
import socket
import sys


def main() -> None:
    """Open the socket and wait."""
    descriptor, port = int(sys.argv[1]), int(sys.argv[2])
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    with socket.socket(fileno=descriptor) as channel:
        os.dup2(descriptor, 0)
        rights = array.array("i", [listener.fileno()])
        message = str(os.getpid()).encode()
        channel.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    listener.close()
    os.execv("/bin/cat", ["cat"])  # noqa: S606 - a megabyte instead of an interpreter


main()
