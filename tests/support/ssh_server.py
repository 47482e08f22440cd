"""An OpenSSH server of the tests on 127.0.0.1, with keys of its own and a client configuration for it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from getpass import getuser
from pathlib import Path

from buddy.workspace.targets.connection import TargetConnection
from buddy.workspace.targets.destination import SshDestination

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/usr/local/sbin") or ""
DEADLINE_S = 20.0


def make_key(path: Path) -> None:
    """Make a key without a passphrase."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)


class SshServer:
    """A running server. `config` is the client's configuration file, `folder` the target's folder;
    `environment` is what it gives to those who log in."""

    def __init__(self, home: Path, *, extra: str = "", sftp: str = "internal-sftp") -> None:
        self.home = home
        self.folder = home / "work"
        self.folder.mkdir(parents=True)
        login_home = home / "home"
        login_home.mkdir()
        # The person's own start-up files may wait for a lock that a killed connection of a test left.
        self.environment = {"HOME": str(login_home)}
        self.greeting_limit_s = DEADLINE_S
        self.config = home / "client_config"
        self.extra, self.sftp = extra, sftp
        make_key(home / "host_key")
        make_key(home / "user_key")
        (home / "authorized").write_text((home / "user_key.pub").read_text())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.write_client_config()
        self.trust_host_key()
        self._process: subprocess.Popen[bytes] | None = None

    def write_client_config(self) -> None:
        """Write the configuration of the client."""
        self.config.write_text(
            f"Host machine\n  HostName 127.0.0.1\n  Port {self.port}\n  User {getuser()}\n"
            f"  IdentityFile {self.home}/user_key\n  IdentitiesOnly yes\n  IdentityAgent none\n"
            f"  UserKnownHostsFile {self.home}/known_hosts\n  GlobalKnownHostsFile none\n"
            "  StrictHostKeyChecking ask\n"
        )

    def trust_host_key(self) -> None:
        """Make the server's host key known to the client."""
        kind, key, *_ = (self.home / "host_key.pub").read_text().split()
        (self.home / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = self.home / "sshd_config"
        variables = " ".join(f"{name}={value}" for name, value in self.environment.items())
        settings.write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self.home}/host_key\n"
            f"AuthorizedKeysFile {self.home}/authorized\nPasswordAuthentication no\nUsePAM no\n"
            "KbdInteractiveAuthentication no\nPermitRootLogin yes\nStrictModes no\nMaxSessions 50\n"
            f"SetEnv {variables}\nPidFile none\nSubsystem sftp {self.sftp}\n{self.extra}"
        )
        with suppress(OSError):  # only root needs it
            os.makedirs("/run/sshd", exist_ok=True)
        log = (self.home / "sshd.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", settings], stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + DEADLINE_S
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise AssertionError((self.home / "sshd.log").read_text())
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the server with every connection, as a machine that loses its power."""
        if self._process is None:
            return
        for pid in self._connections():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process = None

    def _connections(self) -> list[int]:
        """Return the server's processes for open connections: its descendants that are sshd."""
        parents: dict[int, list[int]] = {}
        names: dict[int, str] = {}
        for entry in os.listdir("/proc"):
            with suppress(OSError):
                if entry.isdigit():
                    head, _, rest = Path(f"/proc/{entry}/stat").read_text().rpartition(")")
                    parents.setdefault(int(rest.split()[1]), []).append(int(entry))
                    names[int(entry)] = head.partition("(")[2]
        waiting, found = [self._process.pid if self._process else 0], []
        while waiting:
            for pid in parents.get(waiting.pop(), []):
                if names[pid].startswith("sshd"):
                    found.append(pid)
                    waiting.append(pid)
        return found

    def destination(self, **changes: object) -> SshDestination:
        """Return the destination of this server."""
        fields: dict[str, object] = {"folder": str(self.folder), **changes}
        return SshDestination("box", "machine", config=str(self.config), **fields)  # type: ignore[arg-type]

    def connection(self, **changes: object) -> TargetConnection:
        """Return a connection to this server, not yet open."""
        environment = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
        return TargetConnection(
            self.destination(**changes),
            lambda: environment,
            shutil.which,
            greeting_limit_s=self.greeting_limit_s,
        )


@contextmanager
def ssh_server(home: Path, *, extra: str = "", sftp: str = "internal-sftp") -> Generator[SshServer]:
    """Run a server for a test."""
    server = SshServer(home, extra=extra, sftp=sftp)
    server.start()
    try:
        yield server
    finally:
        server.kill()
