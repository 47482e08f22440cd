"""Programs that show the state of the machine: disks, network interfaces, modules.

Only what is listed from local tables: no option that changes something, resolves names over the network or
writes a file of its own. Left out are top, which makes a folder in the home, and the logs, which may hold
secrets that programs wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from buddy.safety.shell.names import words
from buddy.safety.shell.options import OptionTable, parse
from buddy.safety.shell.place import JudgedCommand, RefusedError

_IP_OBJECTS = words("a addr address l link r ro route ru rule n neigh neighbor neighbour maddr maddress")
_IP_FLAGS = words(
    "-4 -6 -s -o -d -h -j -p -c -br -brief -stats -statistics -oneline -details -human -json -pretty"
)


def _refused(judged: JudgedCommand, word: str) -> RefusedError:
    return RefusedError(f"{judged.argv[0]} {word} is not known to only read")


def ip(judged: JudgedCommand) -> None:
    """ip: what it lists; `get` of a route is a look into a local table."""
    rest = list(judged.argv[1:])
    while rest and rest[0] in _IP_FLAGS:
        rest.pop(0)
    if not rest or rest.pop(0) not in _IP_OBJECTS:
        raise _refused(judged, " ".join(judged.argv[1:]))
    if rest and rest[0] not in ("show", "list", "ls", "lst"):
        raise _refused(judged, " ".join(judged.argv[1:]))


def ss(judged: JudgedCommand) -> None:
    """ss: not -K, which ends connections, -D, which writes a file, -r, which asks for names, -E, which
    waits."""
    OptionTable(
        "-tuxwlnpaeomisH046O --tcp --udp --unix --raw --listening --numeric --processes --all --extended "
        "--options --memory --info --summary --no-header --ipv4 --ipv6 --oneline",
        operands="text",
    ).check(judged)


def statistics_with(options: str) -> Callable[[JudgedCommand], None]:
    """vmstat and its like: an interval without a count goes on for ever."""

    def statistics(judged: JudgedCommand) -> None:
        given = parse(judged, options)
        numbers = [operand for operand in given.operands if re.fullmatch(r"\d{1,2}", operand)]
        if len(given.operands) not in (0, 2) or len(numbers) != len(given.operands):
            raise RefusedError(f"{judged.argv[0]} without a count does not end by itself")

    return statistics


def mount(judged: JudgedCommand) -> None:
    """mount: alone it lists."""
    if judged.argv[1:] not in ((), ("-l",)):
        raise RefusedError("mount with operands mounts")


def sysctl(judged: JudgedCommand) -> None:
    """sysctl: an operand with = sets."""
    given = parse(judged, "-aneNA --all --names --values --ignore")
    for operand in given.operands:
        if not re.fullmatch(r"[a-z][\w.*-]*", operand):
            raise _refused(judged, operand)


def _exactly(*shapes: str) -> Callable[[JudgedCommand], None]:
    """A program of which only a few lines are known."""

    def exact(judged: JudgedCommand) -> None:
        if " ".join(judged.argv[1:]) not in shapes:
            raise _refused(judged, " ".join(judged.argv[1:]))

    return exact


MACHINE: dict[str, Callable[[JudgedCommand], None]] = {
    "ip": ip,
    "ss": ss,
    "vmstat": statistics_with("-admswtf -S:text"),
    "mount": mount,
    "sysctl": sysctl,
    "lsblk": OptionTable(
        "-abdfimnpstJlSTrOP -o:text -e:text -I:text --all --fs --json --list --paths --noheadings "
        "--output:text "
        "--nodeps --bytes --ascii --perms --topology --output-all",
        operands="text",
    ),
    "findmnt": OptionTable(
        "-lnJrDhaRPAs -t:text -o:text -T:name --list --json --raw --df --all --noheadings --output:text "
        "--types:text "
        "--target:name --fstab --submounts",
        operands="text",
    ),
    "lsmod": OptionTable(operands="none"),
    "lspci": OptionTable("-vntmkD -s:text -d:text", operands="none"),
    "lsusb": OptionTable("-vt -s:text -d:text", operands="none"),
    "last": OptionTable("-NUM -n:num -axFRw --limit:num --fulltimes --nohostname", operands="text"),
    "users": OptionTable(operands="none"),
    "stty": _exactly("", "-a", "size"),
    "tput": _exactly("cols", "lines", "colors", "longname"),
    "ldconfig": _exactly("-p"),
    "dirs": _exactly("", "-v", "-p"),
    "times": _exactly(""),
    "hash": _exactly(""),
    "getfacl": OptionTable("-acdeEnpRst --absolute-names --recursive --tabular --numeric", operands="name"),
    "lsattr": OptionTable("-adlpvRV", operands="name"),
    "namei": OptionTable("-lmnovx --long --modes --owners --vertical", operands="name"),
    "pstree": OptionTable("-aAcgGhlnpsSTuU", operands="text"),
}
