# ruff: noqa: E501
"""Attempts to break out of the sandbox, as data: each is a command that writes `OUT` where it worked.

`{out}` is the folder outside, `{home}` the home folder, `{work}` the workspace, `{pid}` the process id of the
program that runs the tests, `{port}` a TCP port and `{socket}` a Unix socket it listens on (`{linked}`: under another
name, `{relative}`: bound in its folder, `{datagrams}`: for datagrams), `{abstract}` an
abstract socket, `{tty}` a terminal and `{tty_fd}` its descriptor, `{shared}` a piece of shared memory, `{py}` a
Python.

An attempt counts as successful when it prints the word ESCAPED or changes anything outside of the workspace,
or a protected name in it. `control` says that the same command does succeed without the sandbox, so that a
test that could not fail is noticed.
"""

from __future__ import annotations

import msgspec


class Attempt(msgspec.Struct, frozen=True):
    """One attempt. `levels`: where it must fail; `control`: without a sandbox it succeeds, `control_of_root`:
    only if root makes it."""

    name: str
    command: str
    control: bool = True
    control_of_root: bool = False
    levels: tuple[int, ...] = (2, 3)


def _python(code: str) -> str:
    return f"{{py}} - <<'EOF'\n{code}\nEOF"


def _call(number: int, *arguments: str) -> str:
    """A system call by its number on x86-64; ESCAPED when it is not refused."""
    return _python(
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "libc.syscall.restype = ctypes.c_long\n"  # the lower half of an address may look like an error
        f"result = libc.syscall({number}, {', '.join(arguments)})\n"
        "print('ESCAPED' if result >= 0 else ctypes.get_errno())"
    )


_SEE = "&& echo ESCAPED"

WRITES = (
    Attempt("absolute path", "echo x > {out}/file"),
    Attempt("append", "echo x >> {out}/file"),
    Attempt("dot dot", "echo x > ../outside/file"),
    Attempt("new file", "touch {out}/new"),
    Attempt("new folder", "mkdir {out}/newdir"),
    Attempt("delete", "rm -f {out}/file"),
    Attempt("delete a folder", "rm -rf {out}/folder"),
    Attempt("move away", "mv {out}/file {work}/stolen"),
    Attempt("move over", "echo x > mine; mv -f mine {out}/file"),
    Attempt("link of a folder", "ln -s {out} l; echo x > l/file"),
    Attempt("link of a file", "ln -s {out}/file l; echo x > l"),
    Attempt("link by the root of a process", "echo x > /proc/self/root{out}/file"),
    Attempt("root of process 1", "echo x > /proc/1/root{out}/file", control=False),
    Attempt("working folder of a process", "echo x > /proc/self/cwd/../outside/file"),
    Attempt("folder descriptor", _python("import os\nfd = os.open('{out}', os.O_RDONLY)\nos.close(os.open('file', os.O_WRONLY | os.O_TRUNC, dir_fd=fd))")),
    Attempt("hard link then write", "ln {out}/file h && echo x > h"),
    Attempt("nameless file", _python("import os\nfd = os.open('{out}', os.O_TMPFILE | os.O_WRONLY)\nimport ctypes\nctypes.CDLL(None).linkat(-100, f'/proc/self/fd/{{fd}}'.encode(), -100, b'{out}/linked', 0x400)")),
    Attempt("truncate", "truncate -s 0 {out}/file"),
    Attempt("dd", "dd if=/dev/zero of={out}/file count=1 2>/dev/null"),
    Attempt("mode", "chmod 777 {out}/file"),
    Attempt("times", "touch -d 2001-01-01 {out}/file"),
    Attempt("attributes", _python("import os\nos.setxattr('{out}/file', 'user.x', b'1')\nprint('ESCAPED')")),
    Attempt("mode by a descriptor", _python("import os\nos.fchmod(os.open('{out}/file', os.O_RDONLY), 0o777)")),
    Attempt("mode by a link", "ln -s {out}/file l; chmod 777 l"),
    Attempt("mode by a link to its folder", "ln -s {out} l; chmod 777 l/file"),
    Attempt("mode by a folder descriptor", _python("import os\nos.chmod('file', 0o777, dir_fd=os.open('{out}', os.O_RDONLY))")),
    Attempt("mode by the descriptor's name", _python("import os\nfd = os.open('{out}/file', os.O_RDONLY)\nos.chmod(f'/proc/self/fd/{{fd}}', 0o777)")),
    Attempt("mode by the working folder", "cd {out} && chmod 777 file folder"),
    Attempt("mode of all the folder", "chmod -R a+rwx {out}"),
    Attempt("mode of a key", "chmod 640 {home}/.ssh/id_rsa"),
    Attempt("mode by its newest call", _call(452, "-100", "b'{out}/file'", "0o777", "0")),
    Attempt("mode of an open file by its newest call", _python("import ctypes, os\nfd = os.open('{out}/file', os.O_PATH)\nif ctypes.CDLL(None).syscall(452, fd, b'', 0o777, 0x1000) == 0:\n    print('ESCAPED')")),
    Attempt("owner", _python("import os\nos.chown('{out}/file', os.getuid(), os.getgid())\nprint('ESCAPED')")),
    Attempt("owner of a link", _python("import os\nos.lchown('{out}/file', os.getuid(), os.getgid())\nprint('ESCAPED')")),
    Attempt("owner by a descriptor", _python("import os\nos.fchown(os.open('{out}/file', os.O_RDONLY), os.getuid(), os.getgid())\nprint('ESCAPED')")),
    Attempt("times by a descriptor", _python("import os\nos.utime(os.open('{out}/file', os.O_RDONLY), (1, 1))")),
    Attempt("times in seconds", _call(132, "b'{out}/file'", "b'\\0' * 16")),
    Attempt("times by the oldest calls", _call(235, "b'{out}/file'", "b'\\0' * 32")),
    Attempt("attributes by a descriptor", _python("import os\nos.setxattr(os.open('{out}/file', os.O_RDONLY), 'user.x', b'1')\nprint('ESCAPED')")),
    Attempt("attributes by their newest call", _call(463, "-100", "b'{out}/file'", "0", "b'user.x'", "(ctypes.c_uint64 * 2)()", "ctypes.c_size_t(16)")),
    Attempt("flags of a file", _python("import array, fcntl, os\nfd = os.open('{out}/file', os.O_RDONLY)\nflags = array.array('l', [0])\nfcntl.ioctl(fd, 0x80086601, flags)\nfcntl.ioctl(fd, 0x40086602, flags)\nprint('ESCAPED')")),
    Attempt("flags of a file by their newest call", _call(469, "-100", "b'{out}/file'", "b'\\0' * 24", "24", "0"), control=False),
    Attempt("memory map", _python("import mmap, os\nfd = os.open('{out}/file', os.O_RDWR)\nmmap.mmap(fd, 0)[0:1] = b'X'")),
    Attempt("exchange of names", _python("import ctypes\nlibc = ctypes.CDLL(None)\nopen('mine', 'w').write('x')\nlibc.renameat2(-100, b'mine', -100, b'{out}/file', 2)")),
    Attempt("archive with dot dot", _python("import tarfile, io\nt = tarfile.open('a.tar', 'w')\ni = tarfile.TarInfo('../outside/file')\ni.size = 1\nt.addfile(i, io.BytesIO(b'x'))\nt.close()") + "\ntar -xPf a.tar"),
    Attempt("git in another folder", "git init -q {out}/folder"),
    Attempt("start-up file of the shell", "echo x >> {home}/.bashrc"),
    Attempt("keys of ssh", "echo x >> {home}/.ssh/authorized_keys"),
    Attempt("settings of buddy", "echo x >> {home}/.config/buddy/buddy.toml"),
    Attempt("temporary folder of others", "echo ESCAPED-$$ > /tmp/seen-by-everybody-{pid}", control=False),
    Attempt("shared memory of others", "echo x > /dev/shm/buddy-escape-{pid}", control=False),
    Attempt("system settings", "echo x > /etc/buddy-escape", control=False),
    Attempt("kernel settings", "cat /proc/sys/kernel/core_pattern > p; cat p > /proc/sys/kernel/core_pattern " + _SEE, control=False),
    Attempt("magic request", "{{ : > /proc/sysrq-trigger; }} 2>/dev/null " + _SEE, control=False),
    Attempt("control groups", "mkdir /sys/fs/cgroup/escape " + _SEE, control=False),
    Attempt("disk", "for d in /dev/vda /dev/sda /dev/nvme0n1; do head -c 1 $d >/dev/null 2>&1 && echo ESCAPED; done", control=False),
    Attempt("memory of the machine", "head -c 1 /dev/mem " + _SEE, control=False),
)  # fmt: skip

PROTECTED = (
    Attempt("git configuration", "git config core.fsmonitor 'touch {out}/x'", levels=(2, 3)),
    Attempt("git configuration by hand", "printf '[core]\\nhooksPath=x\\n' >> .git/config"),
    Attempt("git configuration moved over", "cp .git/config c; echo '[x]y=z' >> c; mv -f c .git/config"),
    Attempt("hook", "echo '#!/bin/sh' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"),
    Attempt("hooks folder moved", "mv .git/hooks .git/h2 && mkdir .git/hooks && touch .git/hooks/pre-commit"),
    Attempt("git folder moved", "mv .git .g2 && git init -q . && touch .git/hooks/pre-commit"),
    Attempt("git folder deleted", "rm -rf .git/hooks .git/config; test -e .git/config || echo ESCAPED"),
    Attempt("editor settings", "echo x > .vscode/settings.json"),
    Attempt("editor settings, new file", "echo x > .vscode/tasks.json"),
    Attempt("editor settings moved away", "mv .vscode v && mkdir .vscode && touch .vscode/tasks.json"),
    Attempt("agent settings in a folder", "echo x > sub/.claude/settings.json"),
    Attempt("agent settings, folder moved", "mv sub/.claude sub/c && echo ESCAPED"),
    Attempt("new agent settings", "mkdir .codex && echo x > .codex/config.toml"),
    Attempt("new agent settings in a folder", "mkdir -p a/b/.cursor && echo x > a/b/.cursor/mcp.json"),
    Attempt("new agent settings by moving", "mkdir k && touch k/x && mv k .gemini"),
    Attempt("new agent settings by a link", "mkdir k && ln -s k .idea"),
    Attempt("new server settings", "echo x > .mcp.json"),
    Attempt("new settings of buddy", "echo x > buddy.toml"),
    Attempt("new settings of direnv", "cp main.py .envrc"),
    Attempt("new settings, letters changed", "mkdir .VSCode && echo x > .VSCode/tasks.json"),
    Attempt("new settings by dirfd", _python("import os\nfd = os.open('sub', os.O_RDONLY)\nos.mkdir('.zed', dir_fd=fd)")),
    Attempt("new settings by openat2", _python("import ctypes, struct\nctypes.CDLL(None).syscall(437, -100, b'.envrc', struct.pack('=QQQ', 0o101, 0o644, 0), 24)")),
    Attempt("new settings by mknod", _python("import os, stat\nos.mknod('.mcp.json', stat.S_IFREG | 0o644)")),
    Attempt("new workspace of an editor", "echo x > all.code-workspace; test -e all.code-workspace " + _SEE),
    Attempt("new settings unpacked", "mkdir -p /tmp/z{pid}/.fleet && touch /tmp/z{pid}/.fleet/run.json && cp -r /tmp/z{pid}/.fleet .; rm -r /tmp/z{pid}", levels=(3,)),
)  # fmt: skip

READS = (
    Attempt("ssh key", "grep -q secret-of-this {home}/.ssh/id_rsa " + _SEE),
    Attempt("cloud credentials", "grep -q secret-of-this {home}/.aws/credentials " + _SEE),
    Attempt("netrc", "grep -q secret-of-this {home}/.netrc " + _SEE),
    Attempt("token of a program", "grep -q secret-of-this {home}/.config/gh/hosts.yml " + _SEE),
    Attempt("settings of buddy, reading", "grep -q secret-of-this {home}/.config/buddy/buddy.toml " + _SEE),
    Attempt("ssh key by a link", "ln -s {home}/.ssh l; grep -q secret-of-this l/id_rsa " + _SEE),
    Attempt("ssh key by the root of a process", "grep -q secret-of /proc/self/root{home}/.ssh/id_rsa " + _SEE),
    Attempt("environment of the program", "tr '\\0' '\\n' < /proc/{pid}/environ | grep -q . " + _SEE),
    Attempt("command line of the program", "tr '\\0' ' ' < /proc/{pid}/cmdline | grep -q . " + _SEE, levels=(3,)),
    Attempt("memory of the program", "head -c 0 /proc/{pid}/mem " + _SEE),
    Attempt("descriptors of the program", "readlink /proc/{pid}/fd/* | grep -q . " + _SEE),
    Attempt("root of the program", "ls /proc/{pid}/root/ | grep -q . " + _SEE),
    Attempt("other processes", "ls -d /proc/[0-9]* | wc -l | {{ read n; [ $n -gt 12 ] && echo ESCAPED; }}", levels=(3,), control=False),
    Attempt("shadow passwords", "test -s /etc/shadow && head -c 1 /etc/shadow >/dev/null " + _SEE, control=False),
)  # fmt: skip

PROCESSES = (
    Attempt("signal to the program", "kill -0 {pid} " + _SEE),
    Attempt("signal to all", "kill -0 -- -1 2>/dev/null; kill -URG {pid} " + _SEE),
    Attempt("ptrace", _call(101, "16", "{pid}", "0", "0"), control=False),
    Attempt("read memory by system call", _python("import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nclass V(ctypes.Structure):\n    _fields_ = [('a', ctypes.c_void_p), ('n', ctypes.c_size_t)]\nb = ctypes.create_string_buffer(8)\nmine = V(ctypes.addressof(b), 8)\ntheirs = V(0x400000, 8)\nprint('ESCAPED' if libc.process_vm_readv({pid}, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0) >= 0 or ctypes.get_errno() == 14 else 'no')")),
    Attempt("descriptor of another process", _python("import os, ctypes\nlibc = ctypes.CDLL(None)\ntry:\n    fd = os.pidfd_open({pid})\n    print('ESCAPED' if libc.syscall(438, fd, 0, 0) >= 0 else 'no')\nexcept OSError:\n    print('no')")),
    Attempt("priority of the program", _python("import os\nos.setpriority(os.PRIO_PROCESS, {pid}, os.getpriority(os.PRIO_PROCESS, {pid}))\nprint('ESCAPED')")),
    Attempt("priority of the program's group", _python("import os\nos.setpriority(os.PRIO_PGRP, os.getpgid({pid}), os.getpriority(os.PRIO_PGRP, os.getpgid({pid})))\nprint('ESCAPED')")),
    Attempt("priority of the user", _python("import os\nos.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_USER, 0))\nprint('ESCAPED')"), levels=(2,), control_of_root=True),
    Attempt("limits of the program", _python("import resource\nresource.prlimit({pid}, resource.RLIMIT_NOFILE, resource.prlimit({pid}, resource.RLIMIT_NOFILE))\nprint('ESCAPED')")),
    Attempt("size of the program's files", _python("import resource\nl = resource.prlimit({pid}, resource.RLIMIT_FSIZE)\nresource.prlimit({pid}, resource.RLIMIT_FSIZE, l)\nprint('ESCAPED')")),
    Attempt("limits by the upper half of an argument", _call(302, "{pid} | 1 << 32", "7", "0", "b'\\0' * 16")),
    Attempt("processors of the program", _python("import os\nos.sched_setaffinity({pid}, os.sched_getaffinity({pid}))\nprint('ESCAPED')")),
    Attempt("scheduling of the program", _python("import os\nos.sched_setscheduler({pid}, os.SCHED_OTHER, os.sched_param(0))\nprint('ESCAPED')")),
    Attempt("scheduling parameters of the program", _python("import os\nos.sched_setparam({pid}, os.sched_param(0))\nprint('ESCAPED')")),
    Attempt("scheduling attributes of the program", _call(314, "{pid}", "b'\\x30\\0\\0\\0' + b'\\0' * 44", "0")),
    Attempt("input and output of the program", _call(251, "1", "{pid}", "0x4004")),
    Attempt("input and output of the user", _call(251, "3", "0", "0x4004"), levels=(2,), control_of_root=True),
    Attempt("pages of the program", _call(279, "{pid}", "0", "0", "0", "0", "0")),
    Attempt("nodes of the program", _call(256, "{pid}", "8", "b'\\1' + b'\\0' * 7", "b'\\1' + b'\\0' * 7")),
    Attempt("files compared with the program's", _call(312, "{pid}", "{pid}", "2", "0", "0")),
    Attempt("locks of the program", _call(274, "{pid}", "b'\\0' * 8", "b'\\0' * 8")),
    Attempt("group of the program", _call(109, "{pid}", "0"), control=False),
    Attempt("signal with a value", _call(129, "{pid}", "0", "b'\\0' * 128"), control=False),
    Attempt("signal by a descriptor", _python("import os, signal\nsignal.pidfd_send_signal(os.pidfd_open({pid}), 0)\nprint('ESCAPED')")),
    Attempt("signal to a thread", _call(234, "{pid}", "{pid}", "0")),
    Attempt("shared memory of the program", _call(30, "{shared}", "0", "0o10000")),
    Attempt("shared memory removed", _call(31, "{shared}", "0", "0")),
    Attempt("queue of messages", _call(240, "b'buddy-{pid}'", "0o101", "0o600", "0"), levels=(2,), control=False),
)  # fmt: skip

TERMINALS = (
    Attempt("writing to another terminal", "echo x > {tty} " + _SEE),
    Attempt("reading another terminal", ": < {tty} " + _SEE),
    Attempt("another terminal by the root of a process", ": < /proc/self/root{tty} " + _SEE),
    Attempt("another terminal by a link", "ln -s {tty} t; : > t " + _SEE),
    Attempt("another terminal by a link to its folder", "ln -s /dev/pts p; : > p/$(basename {tty}) " + _SEE),
    Attempt("another terminal by a folder descriptor", _python("import os\nfolder = os.open('/dev/pts', os.O_RDONLY)\nos.open(os.path.basename('{tty}'), os.O_RDWR | os.O_NOCTTY, dir_fd=folder)\nprint('ESCAPED')")),
    Attempt("another terminal by a hard link", "ln {tty} t && : > t " + _SEE, control=False),
    Attempt("size of another terminal", "stty -F {tty} rows 3 " + _SEE),
    Attempt("settings of another terminal", _python("import os, termios\nfd = os.open('{tty}', os.O_RDONLY | os.O_NOCTTY)\ntermios.tcsetattr(fd, 0, termios.tcgetattr(fd))\nprint('ESCAPED')")),
    Attempt("another terminal by its process", ": < /proc/{pid}/fd/{tty_fd} " + _SEE),
    Attempt("another terminal by the descriptor of a thread", ": < /proc/{pid}/task/{pid}/fd/{tty_fd} " + _SEE),
    Attempt("another terminal taken over", _python("import fcntl, os\nos.setsid() if os.getpid() != os.getsid(0) else None\nfcntl.ioctl(os.open('{tty}', os.O_RDWR), 0x540E, 0)\nprint('ESCAPED')")),
    Attempt("mode of another terminal", "chmod 666 {tty} " + _SEE),
    Attempt("console", "test -c /dev/console && : > /dev/console " + _SEE, control=False),
    Attempt("virtual terminals", "for f in /dev/tty[0-9]* /dev/ttyS* /dev/vcs* /dev/vcsa*; do : < $f && echo ESCAPED; done 2>/dev/null", control=False),
    Attempt("keyboard", "cat /dev/input/event0 " + _SEE, control=False),
)  # fmt: skip

SOCKETS = (
    Attempt("unix socket", _python("import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('{socket}')\nprint('ESCAPED')")),
    Attempt("linked unix socket", _python("import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('{linked}')\nprint('ESCAPED')")),
    Attempt("unix socket bound by a relative path", _python("import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('{relative}')\nprint('ESCAPED')")),
    Attempt("unix socket by a link", "ln -s {linked} l\n" + _python("import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('l')\nprint('ESCAPED')")),
    Attempt("unix socket by a link in the temporary folder", "ln -s {relative} $TMPDIR/l\n" + _python("import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(os.environ['TMPDIR'] + '/l')\nprint('ESCAPED')"), control=False),
    Attempt("unix socket from its folder", _python("import os, socket\nos.chdir(os.path.dirname('{linked}'))\ns = socket.socket(socket.AF_UNIX)\ns.connect(os.path.basename('{linked}'))\nprint('ESCAPED')")),
    Attempt("unix socket by the working folder of a process", _python("import os, socket\nos.chdir(os.path.dirname('{relative}'))\ns = socket.socket(socket.AF_UNIX)\ns.connect('/proc/self/cwd/' + os.path.basename('{relative}'))\nprint('ESCAPED')")),
    Attempt("unix socket linked into the workspace", _python("import os, socket\nos.link('{linked}', 'mine')\ns = socket.socket(socket.AF_UNIX)\ns.connect('mine')\nprint('ESCAPED')")),
    Attempt("datagram to a unix socket", _python("import socket\ns = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\ns.sendto(b'x', '{datagrams}')\nprint('ESCAPED')")),
    Attempt("abstract socket", _python("import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0{abstract}')\nprint('ESCAPED')")),
    Attempt("server on localhost", _python("import socket\ns = socket.create_connection(('127.0.0.1', {port}), 2)\nprint('ESCAPED')")),
    Attempt("server on localhost by its other name", _python("import socket\ns = socket.create_connection(('0.0.0.0', {port}), 2)\nprint('ESCAPED')")),
    Attempt("server by an address of the machine", "for a in $(hostname -I 2>/dev/null); do (exec 3<>/dev/tcp/$a/{port}) 2>/dev/null && echo ESCAPED; done", control=False),
    Attempt("public address", "(exec 3<>/dev/tcp/192.0.2.1/80) 2>&1 | grep -q unreachable || echo ESCAPED", control=False, levels=(3,)),
    Attempt("public IPv6 address", _python("import socket\ntry:\n    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).connect(('2001:db8::1', 53))\n    print('ESCAPED')\nexcept OSError:\n    pass"), control=False),
    Attempt("name server", _python("import socket\nsocket.getaddrinfo('example.org', 443)\nprint('ESCAPED')"), control=False),
    Attempt("datagram", _python("import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))\nprint('ESCAPED')"), control=False),
    Attempt("raw socket", _python("import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\nprint('ESCAPED')"), control=False),
    Attempt("packet socket", _python("import socket\nsocket.socket(17, 3, 768)\nprint('ESCAPED')"), control=False),
    Attempt("socket of virtual machines", _python("import socket\nsocket.socket(40, 1)\nprint('ESCAPED')"), control=False),
    Attempt("crypto socket", _python("import socket\nsocket.socket(38, 5)\nprint('ESCAPED')"), control=False),
    Attempt("session bus", "test -S /run/dbus/system_bus_socket " + _SEE, control=False, levels=(3,)),
    Attempt("container engine", "test -S /run/docker.sock -o -S /var/run/docker.sock " + _SEE, control=False, levels=(3,)),
    Attempt("display server", "ls /tmp/.X11-unix 2>/dev/null | grep -q . " + _SEE, control=False, levels=(3,)),
    Attempt("runtime folder", "ls -A /run 2>/dev/null | grep -vx -e current-system -e opengl-driver -e systemd | grep -q . " + _SEE, control=False, levels=(3,)),
)  # fmt: skip

KERNEL = (
    Attempt("user namespace", "unshare -Ur true " + _SEE),
    Attempt("mount namespace", "unshare -rm true " + _SEE),
    Attempt("sandbox in the sandbox", "bwrap --dev-bind / / true " + _SEE, control=False),
    Attempt("clone with a namespace", _call(56, "0x10000011", "0", "0", "0", "0") , control=False),
    Attempt("clone3", _call(435, "0", "0"), control=False),
    Attempt("join a namespace", "nsenter -t 1 -m true " + _SEE, control=False),
    Attempt("mount", "mount -t tmpfs none {work}/sub 2>/dev/null " + _SEE, control=False),
    Attempt("unmount", "umount {work}/.git/hooks 2>/dev/null " + _SEE, control=False),
    Attempt("remount", "mount -o remount,rw / 2>/dev/null " + _SEE, control=False),
    Attempt("new mount calls", _call(430, "b'tmpfs'", "0"), control=False),
    Attempt("open a tree", _call(428, "-100", "b'/'", "1"), control=False),
    Attempt("move a mount", _call(429, "-100", "b'/tmp'", "-100", "b'/mnt'", "0"), control=False),
    Attempt("change root", _call(161, "b'/'"), control=False),
    Attempt("switch root", _call(155, "b'/'", "b'/'"), control=False),
    Attempt("io_uring", _call(425, "8", "b'\\0' * 120"), control=False),
    Attempt("programs in the kernel", _call(321, "0", "b'\\0' * 128", "128"), control=False),
    Attempt("performance events", _call(298, "b'\\0' * 128", "0", "-1", "-1", "0"), control=False),
    Attempt("key ring", _call(250, "0", "-3", "1"), control=False),
    Attempt("file handle", _call(304, "-100", "b'\\0' * 32", "0"), control=False),
    Attempt("page faults", _call(323, "0"), control=False),
    Attempt("kernel module", _call(175, "0", "0", "b''"), control=False),
    Attempt("kernel log", _call(103, "10", "0", "0"), control=False),
    Attempt("clock", _call(164, "b'\\0' * 16", "0"), control=False),
    Attempt("typing into the terminal", _python("import fcntl, os\nm, s = os.openpty()\nos.setsid() if os.getpid() != os.getsid(0) else None\nfcntl.ioctl(s, 0x540E, 0)\nfcntl.ioctl(s, 0x5412, b'x')\nprint('ESCAPED')"), control=False),
    Attempt("second set of system calls", _call(0x40000000 + 165, "b'none'", "b'/mnt'", "b'tmpfs'", "0", "0"), control=False),
    Attempt("more rights by setuid", "grep -q 'NoNewPrivs:.0' /proc/self/status " + _SEE),
    Attempt("capabilities", "grep -q 'CapEff:.0000000000000000' /proc/self/status || echo ESCAPED", control=False),
    Attempt("program without a file", _python("import os\nfd = os.memfd_create('x')\nos.write(fd, open('/bin/touch', 'rb').read())\nos.execve(fd, ['touch', '{out}/new'], {{}})")),
    Attempt("device node", "mknod {work}/d b 8 0 2>/dev/null && head -c 1 {work}/d >/dev/null 2>&1 " + _SEE, control=False),
)  # fmt: skip

ATTEMPTS = (*WRITES, *PROTECTED, *READS, *PROCESSES, *TERMINALS, *SOCKETS, *KERNEL)
