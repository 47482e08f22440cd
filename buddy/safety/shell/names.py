"""Program names that matter wherever they stand: what runs other programs, and what runs any code."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """A set written as a sentence, so that long tables stay readable."""
    return frozenset(text.split())


ONLY_PRINT = words("echo basename dirname printf")
"""Programs that print the names they are given, whatever those are."""

SHOWS_NO_CONTENT = ONLY_PRINT | words(
    "wc ls dir stat file du df realpath readlink tree md5sum sha1sum sha224sum sha256sum sha384sum sha512sum "
    "b2sum cksum sum shasum test [ true false : grep egrep fgrep rg env nice timeout stdbuf time "
    "command builtin bash sh xargs find"
)
"""Programs that show of a file at most its size, kind or digest, that look themselves at what they would
find, or that hand it to another program, which is judged by itself."""

WRAPPERS = words(
    "env sudo doas su pkexec runuser gosu chroot unshare nsenter setpriv capsh timeout nice ionice "
    "chrt taskset nohup setsid stdbuf time gtime command builtin exec eval xargs parallel find fd "
    "fdfind watch flock script strace ltrace perf valgrind gdb systemd-run at batch start-stop-daemon "
    "daemonize busybox toybox prlimit firejail bwrap caffeinate unbuffer ssh-agent dbus-run-session "
    "xvfb-run linux32 linux64 setarch arch trap source . rlwrap entr faketime fakeroot proot "
    "catchsegv choom cpulimit hyperfine mise direnv dotenv coproc"
)
"""Programs that start the command among their arguments. Deny and ask rules look at every word after them."""

SHELLS = words("sh bash dash zsh ksh ash mksh fish busybox su script watch parallel flock")
"""Programs that take a command line as one argument after -c."""
