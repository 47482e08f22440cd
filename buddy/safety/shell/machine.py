"""Programs that show the state of the machine: disks, network interfaces, modules, services, logs.

Only what is listed from local tables (top is left out: it makes a folder in the home): no option that changes
something, resolves names over the network, follows a log without end or writes a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from buddy.safety.shell.names import words
from buddy.safety.shell.options import Given, Table, parse
from buddy.safety.shell.place import Judged, RefusedError

_IP_OBJECTS = words("a addr address l link r ro route ru rule n neigh neighbor neighbour maddr maddress")
_IP_FLAGS = words(
    "-4 -6 -s -o -d -h -j -p -c -br -brief -stats -statistics -oneline -details -human -json -pretty"
)
_UNIT = re.compile(r"[A-Za-z0-9@._:*\\-]+")
_SYSTEMCTL_ACTIONS = words(
    "status is-active is-enabled is-failed is-system-running list-units list-unit-files list-timers "
    "list-sockets "
    "list-jobs list-dependencies get-default"
)


def _refused(judged: Judged, word: str) -> RefusedError:
    return RefusedError(f"{judged.argv[0]} {word} is not known to only read")


def ip(judged: Judged) -> None:
    """ip: what it lists; `get` of a route is a look into a local table."""
    rest = list(judged.argv[1:])
    while rest and rest[0] in _IP_FLAGS:
        rest.pop(0)
    if not rest or rest.pop(0) not in _IP_OBJECTS:
        raise _refused(judged, " ".join(judged.argv[1:]))
    if rest and rest[0] not in ("show", "list", "ls", "lst"):
        raise _refused(judged, " ".join(judged.argv[1:]))


def ifconfig(judged: Judged) -> None:
    """ifconfig: all interfaces or one; a further word would set something."""
    rest = judged.argv[1:]
    if rest not in ((), ("-a",), ("-s",)) and not (
        len(rest) == 1 and re.fullmatch(r"[a-z][a-z0-9.]*", rest[0])
    ):
        raise _refused(judged, " ".join(rest))


def ss(judged: Judged) -> None:
    """ss: not -K, which ends connections, -D, which writes a file, -r, which asks for names, -E, which
    waits."""
    Table(
        "-tuxwlnpaeomisH046O --tcp --udp --unix --raw --listening --numeric --processes --all --extended "
        "--options --memory --info --summary --no-header --ipv4 --ipv6 --oneline",
        operands="text",
    ).check(judged)


def netstat(judged: Judged) -> None:
    """netstat: names of hosts are only left alone with -n; -c goes on for ever."""
    given = parse(
        judged, "-tuxwlnparies46W --tcp --udp --listening --numeric --programs --all --route --interfaces"
    )
    if given.operands or not given.has("-n", "--numeric"):
        raise RefusedError("netstat without -n asks the network for names")


def statistics_with(options: str) -> Callable[[Judged], None]:
    """vmstat and its like: an interval without a count goes on for ever."""

    def statistics(judged: Judged) -> None:
        given = parse(judged, options)
        numbers = [operand for operand in given.operands if re.fullmatch(r"\d{1,2}", operand)]
        if len(given.operands) not in (0, 2) or len(numbers) != len(given.operands):
            raise RefusedError(f"{judged.argv[0]} without a count does not end by itself")

    return statistics


def mount(judged: Judged) -> None:
    """mount: alone it lists."""
    if judged.argv[1:] not in ((), ("-l",)):
        raise RefusedError("mount with operands mounts")


def sysctl(judged: Judged) -> None:
    """sysctl: an operand with = sets."""
    given = parse(judged, "-aneNA --all --names --values --ignore")
    for operand in given.operands:
        if not re.fullmatch(r"[a-z][\w.*-]*", operand):
            raise _refused(judged, operand)


def systemctl(judged: Judged) -> None:
    """systemctl: status and lists of this machine's units, and only names of units as operands."""
    given = parse(
        judged,
        "-alq -t:text -p:text -n:num -o:text --all --full --quiet --no-pager --no-legend --plain --failed "
        "--user "
        "--system --type:text --state:text --property:text --lines:num --output:text --value --reverse",
    )
    operands = given.operands
    if not operands and not given.has("--failed"):
        operands = ("list-units",)
    if operands and operands[0] not in _SYSTEMCTL_ACTIONS:
        raise _refused(judged, operands[0])
    _only_units(judged, operands[1:])


def _only_units(judged: Judged, operands: tuple[str, ...]) -> None:
    for operand in operands:
        if not _UNIT.fullmatch(operand):
            raise _refused(judged, operand)


def journalctl(judged: Judged) -> None:
    """journalctl: what is in the journal, with an end; nothing that rotates, follows or reads other files."""
    given = parse(
        judged,
        "-xekraq -n:num -u:text -t:text -p:text -b? -o:text -S:text -U:text -g:text --no-pager "
        "--lines:num --unit:text "
        "--user-unit:text --identifier:text --priority:text --since:text --until:text --boot? --dmesg "
        "--output:text --grep:text --case-sensitive? --reverse --no-hostname --utc --quiet --catalog --all "
        "--no-full --system --user --disk-usage --list-boots",
    )
    if given.operands and not all(
        re.fullmatch(r"_?[A-Z][A-Z_]*=[\w@.:-]+|-?\d", word) for word in given.operands
    ):
        raise _refused(judged, given.operands[0])


def _bare_or(*allowed: str) -> Callable[[Judged], None]:
    """A program that alone, or with one of some words, shows a state."""

    def state(judged: Judged) -> None:
        rest = judged.argv[1:]
        if rest and not (len(rest) == 1 and rest[0] in allowed):
            raise _refused(judged, " ".join(rest))

    return state


def _exactly(*shapes: str) -> Callable[[Judged], None]:
    """A program of which only a few lines are known."""

    def exact(judged: Judged) -> None:
        if " ".join(judged.argv[1:]) not in shapes:
            raise _refused(judged, " ".join(judged.argv[1:]))

    return exact


def _no_operand(given: Given, judged: Judged) -> None:
    if given.operands:
        raise _refused(judged, given.operands[0])


def dmesg(judged: Judged) -> None:
    """dmesg: not -c, -C, -n, -D and -E, which change the kernel's log, nor -w, which waits."""
    _no_operand(
        parse(
            judged,
            "-Ttkxrdeu -l:text -f:text --ctime --notime --kernel --userspace --decode --raw --show-delta "
            "--reltime --level:text --facility:text --since:text --until:text --nopager",
        ),
        judged,
    )


MACHINE: dict[str, Callable[[Judged], None]] = {
    "ip": ip,
    "ifconfig": ifconfig,
    "ss": ss,
    "netstat": netstat,
    "vmstat": statistics_with("-admswtf -S:text"),
    "iostat": statistics_with("-cdhkmtxyz"),
    "mpstat": statistics_with("-Au -P:text"),
    "mount": mount,
    "sysctl": sysctl,
    "systemctl": systemctl,
    "journalctl": journalctl,
    "dmesg": dmesg,
    "lsblk": Table(
        "-abdfimnpstJlSTrOP -o:text -e:text -I:text --all --fs --json --list --paths --noheadings "
        "--output:text "
        "--nodeps --bytes --ascii --perms --topology --output-all",
        operands="text",
    ),
    "findmnt": Table(
        "-lnJrDhaRPAs -t:text -o:text -T:name --list --json --raw --df --all --noheadings --output:text "
        "--types:text "
        "--target:name --fstab --submounts",
        operands="text",
    ),
    "lsmod": Table(operands="none"),
    "lspci": Table("-vntmkD -s:text -d:text", operands="none"),
    "lsusb": Table("-vt -s:text -d:text", operands="none"),
    "lsmem": Table("-abnrJPS -o:text --summary?", operands="none"),
    "lsipc": Table("-mqsgtaJ", operands="none"),
    "lslogins": Table("-usgao", operands="none"),
    "last": Table("-NUM -n:num -axFRw --limit:num --fulltimes --nohostname", operands="text"),
    "users": Table(operands="none"),
    "hostnamectl": _bare_or("status"),
    "timedatectl": _bare_or("status", "list-timezones"),
    "localectl": _bare_or("status", "list-locales"),
    "loginctl": _bare_or("list-sessions", "list-users"),
    "stty": _exactly("", "-a", "size"),
    "tput": _exactly("cols", "lines", "colors", "longname"),
    "ldconfig": _exactly("-p"),
    "dirs": _exactly("", "-v", "-p"),
    "times": _exactly(""),
    "hash": _exactly(""),
    "getfacl": Table("-acdeEnpRst --absolute-names --recursive --tabular --numeric", operands="name"),
    "lsattr": Table("-adlpvRV", operands="name"),
    "namei": Table("-lmnovx --long --modes --owners --vertical", operands="name"),
    "pstree": Table("-aAcgGhlnpsSTuU", operands="text"),
}
