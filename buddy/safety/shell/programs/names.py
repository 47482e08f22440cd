"""Program names that matter wherever they stand: what runs other programs or code, and what uses the
network."""

from __future__ import annotations

import re


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


_ALWAYS = words(
    "curl wget ssh scp sftp ftp nc ncat netcat telnet ping ping6 dig nslookup host whois traceroute "
    "tracepath mtr socat aria2c "
    "lynx w3m links http https httpie xh aws gcloud az gh glab heroku flyctl vercel netlify wrangler "
    "rclone s3cmd mail sendmail "
    "mosh rsh nmap apt apt-get aptitude dnf yum apk pacman zypper brew port snap flatpak npx bunx uvx "
    "pipx pnpx kubectl ansible "
    "ansible-playbook terraform pulumi"
)
_SUBCOMMANDS: dict[str, frozenset[str]] = {
    "git": words("push pull fetch clone ls-remote submodule send-email archive lfs svn request-pull"),
    "npm": words(
        "install i ci add update publish audit outdated view info search exec create init login whoami link x"
    ),
    "yarn": words("install add upgrade publish audit outdated info create dlx npm"),
    "pnpm": words("install i add update publish audit outdated create dlx"),
    "bun": words("install i add update x create"),
    "pip": words("install download search index wheel"),
    "pip3": words("install download search index wheel"),
    "uv": words("sync add pip lock run tool python publish"),
    "poetry": words("install add update publish lock"),
    "pdm": words("install add update publish lock sync"),
    "conda": words("install create update search env"),
    "cargo": words("install fetch update add publish search login generate-lockfile"),
    "go": words("get install mod"),
    "gem": words("install update push fetch search"),
    "bundle": words("install update add"),
    "composer": words("install update require create-project"),
    "docker": words("pull push run build login search compose buildx"),
    "podman": words("pull push run build login search compose"),
    "helm": words("install upgrade pull push repo dependency search"),
    "openssl": words("s_client ocsp"),
    "mvn": words("install deploy compile test package dependency:resolve verify"),
    "dotnet": words("restore add nuget tool"),
    "rustup": words("update install toolchain component target"),
}


def uses_network(argv: tuple[str, ...]) -> bool:
    """Tell whether a command would connect to another machine, as far as its words tell."""
    if not argv:
        return False
    name = argv[0].rpartition("/")[2]
    if name in _ALWAYS:
        return True
    if name == "rsync":
        return any(re.match(r"[^/]+:|rsync:", word) for word in argv[1:])
    subcommands = _SUBCOMMANDS.get(name)
    if subcommands is None:
        return False
    first = next((word for word in argv[1:] if not word.startswith("-")), "")
    return first in subcommands or (name == "yarn" and not first)
