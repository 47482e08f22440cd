"""Commands that use the network. They ask even where a sandbox would let anything run."""

from __future__ import annotations

import re

from buddy.safety.shell.names import words

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
