"""A generated corpus: option tables and grammar, judged, and what is approved really run.

    python -m tests.bench.shell_corpus [COUNT] [SEED]

Commands are made from the option tables, from options nobody listed, and from real commands bent a little.
The approved ones run in a throw-away tree under bubblewrap (root read-only, no network). No approved command
may change, make or remove a file in the workspace, the home folder or /tmp.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import random
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from buddy.safety.shell.programs.names import read_entries
from buddy.safety.shell.programs.options import known_options, table
from buddy.safety.shell.result import READ_ONLY_ENVIRONMENT
from tests.support.shell_project import ShellProject, lines_of, shell_project
from tests.unit.safety.shell.test_analysis_lists import DANGEROUS, EVERYDAY

OPERANDS = [
    *("a", "b", "f", "f.json", "src", "src/main.py", "build", ".", "./a", "--", "-", "*.json", "*", "x", "y"),
    *("a.gz", "a.xz", "a.bz2", "a.tar", "a.zip"),
    *("1", "3", "' '", "''", "'one two'", "OUT", "./OUT", "$HOME", "HEAD"),
]
VALUES = [
    *(
        "1",
        "5",
        "x",
        "a",
        "OUT",
        "f",
        "./OUT",
        ",",
        ":",
        "'%s'",
        "'a b'",
        "src",
        "pid,comm",
        "'*.py'",
        "+",
        "-1",
        "0",
    ),
]
HOSTILE = [
    *(
        "-o OUT",
        "--output=OUT",
        "--output OUT",
        "-O",
        "-i",
        "-w",
        "-f",
        "-F",
        "-x",
        "-X",
        "-e",
        "-c",
        "-C",
        "-s",
        "-R",
    ),
    *(
        "-r",
        "-T",
        "-z",
        "-d",
        "-D",
        "--exec=touch",
        "--pre=touch",
        "--compress-program=touch",
        "--files0-from=f",
    ),
    *(
        "--in-place",
        "--file=f",
        "--config=f",
        "--ext-diff",
        "--textconv",
        "--open-files-in-pager",
        "--to-file=a",
    ),
    *(
        "--upload-pack=touch",
        "--from-file=a",
        "-delete",
        "-fprint OUT",
        "-fls OUT",
        "-exec touch OUT \\;",
        "-v",
    ),
    *(
        "-ok rm {} \\;",
        "-execdir touch OUT \\;",
        "--set=now",
        "--reference=a",
        "--temporary-directory=.",
        "--append",
    ),
    *(
        "--debug",
        "--help",
        "--version",
        "-V",
        "--outp=OUT",
        "--ou=OUT",
        "-oOUT",
        "-iOUT",
        "OUT",
        "-n",
        "-l",
        "-p",
    ),
]
PROGRAMS = [
    *("p", "1p", "$p", "d", "'1,2p'", "'s/a/b/'", "'s/a/b/w OUT'", "'w OUT'", "'1!G;h;$!d'", "'e touch OUT'"),
    *(
        "'s/x/touch OUT/e'",
        "'r a'",
        "'W OUT'",
        "'{print}'",
        "'{print > \"OUT\"}'",
        "'{print $1 | \"tee OUT\"}'",
    ),
    *(
        "'BEGIN{system(\"touch OUT\")}'",
        "'/a/'",
        "'NR>1'",
        "'$1>2{print $1}'",
        "'{print $1,$2/2}'",
        "'END{print NR}'",
    ),
    *('\'/"/{x=1}; /b/ {print "a>b"}\'', "'{if (x) /y/; z = 1/2}'", "'1~2{s/./x/;p}'", "'y/a/b/;$!N;P;D'"),
    *("'a hello'", "'1i\\\nOUT'", "'$!{h;d};x;G'", "'s,a,b,gp'", "':a;N;$!ba;s/\\n/ /g'", "'/a/,/b/{=;l}'"),
    *(".", "'.a'", "'.[]'", "keys", "env", "'$ENV'", "input", "'\"\\(1)\"'", "length"),
]
_OTHERS = (
    "xxd",
    "echo",
    "printf",
    "test",
    "[",
    "ps",
    "printenv",
    "set",
    "go",
    "rustc",
    "dpkg",
    "rpm",
    "pkg-config",
)
_PACKERS = ("gzip", "gunzip", "zcat", "bzip2", "bunzip2", "bzcat", "xz", "unxz", "xzcat")
JOINTS = (" | ", " && ", "; ", " || ", "\n")
ENDINGS = [
    "",
    "",
    "",
    " 2>/dev/null",
    " >/dev/null",
    " 2>&1",
    " > OUT",
    " < a",
    " <<<x",
    " | head -3",
    " | tee OUT",
]


def _specs() -> dict[str, str]:
    """The options of each program, and of some what is dangerous in them besides."""
    found = {
        name: table(name, file).options
        for file in ("programs.options", "judges.options")
        for name in read_entries(file)
        if not name.startswith("@")
    }
    found |= {"git stash list": found["git log"], "git stash show": found["git diff"]}
    found |= {
        "git reflog": found["git log"],
        "git remote": "-v",
        "sed -n": found["sed"],
        "egrep": found["grep"],
    }
    found |= dict.fromkeys(_PACKERS, "-cdklqtvf --stdout --decompress --list --test --keep --force")
    found |= dict.fromkeys(("nm", "objdump", "readelf", "size"), "-a -A -C -D -d -h -s -t -x -l -S @f")
    found |= dict.fromkeys(_OTHERS, "-n -c -l -s -a")
    return found | {
        "tar": "-txcvzjJaf -f:text --list --extract --file:text --exclude:text --delete --to-command:text",
        "unzip": "-lvtZopqd -d:text -x:text",
        "openssl": "-in:text -noout -out:text",
        "ip": "-br -4 -b:text addr link route show set",
        "awk": "-F:text -v:text",
        "jq": "-r -c -n -s -S",
        "find .": "-print -print0 -ls -name:text -type:text -maxdepth:num",
        "find src": "-type:text -print",
        "env": "-i -u:text",
        "timeout 2": "-k:text",
        "time": "-p",
        "nice": "-n:num",
    }


def _option(random_: random.Random, spec: str) -> str:
    if random_.random() < 0.2:
        return random_.choice(HOSTILE)
    known = known_options(spec)
    if not known:
        return ""
    name = random_.choice(sorted(known))
    name = "-3" if name == "-NUM" else name
    kind = known.get(name, "")
    value = random_.choice(VALUES)
    if not kind:
        return name
    if name.startswith("--"):
        return f"{name}={value}" if kind == "optional" or random_.random() < 0.5 else f"{name} {value}"
    return name + value if kind == "optional" or random_.random() < 0.4 else f"{name} {value}"


def made(random_: random.Random, specs: dict[str, str], real: list[str]) -> str:
    """One command line."""
    if random_.random() < 0.15:
        words = random_.choice(real).split(" ")
        words.insert(random_.randint(1, len(words)), random_.choice([*HOSTILE, *OPERANDS]))
        return " ".join(words)
    parts: list[str] = []
    for _ in range(random_.choice([1, 1, 1, 2, 3])):
        name = random_.choice(sorted(specs))
        words = [_option(random_, specs[name]) for _ in range(random_.choice([0, 1, 1, 2, 3]))]
        if name.split()[0] in ("sed", "awk", "jq"):
            words.append(random_.choice(PROGRAMS))
        words += random_.choices(OPERANDS, k=random_.choice([0, 1, 1, 2]))
        if random_.random() < 0.1:
            random_.shuffle(words)
        parts.append(" ".join([name, *words]) + random_.choice(ENDINGS))
    return random_.choice(JOINTS).join(parts)


def state(folder: Path) -> str:
    """A fingerprint of everything in a folder: names, kinds, contents, link targets."""
    found = hashlib.sha256()
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted([*names, *folders]):
            path = Path(parent) / name
            found.update(f"{path}\0{path.lstat().st_mode}\0".encode(errors="surrogateescape"))
            if path.is_symlink():
                found.update(os.fsencode(os.readlink(path)))
            elif path.is_file():
                found.update(path.read_bytes())
    return found.hexdigest()


def run(folder: Path, commands: list[str]) -> None:
    """Run commands one after the other inside the sandbox."""
    script = "\n".join(
        f"timeout -k 1 3 bash --noprofile --norc -c {shlex.quote(command)} </dev/null >/dev/null 2>&1"
        for command in commands
    )
    private = folder / "tmp"
    private.mkdir(exist_ok=True)
    arguments = [
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--unshare-net",
        "--unshare-pid",
    ]
    arguments += ["--bind", str(private), "/tmp", "--bind", str(folder), str(folder), "--die-with-parent"]
    arguments += ["--chdir", str(folder / "work"), "bash", "--noprofile", "--norc", "-s"]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder / "home"),
        "LC_ALL": "C.UTF-8",
        **READ_ONLY_ENVIRONMENT,
    }
    subprocess.run(
        arguments,
        input=script.encode(errors="surrogateescape"),
        env=environment,
        capture_output=True,
        check=False,
    )


def culprits(folder: Path, commands: list[str]) -> list[str]:
    """The commands that change something, halved until each stands alone. The tree is put back in between."""
    before = state(folder)
    kept = folder.with_name(folder.name + "-kept")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept, symlinks=True)
    run(folder, commands)
    if state(folder) == before:
        return []
    shutil.rmtree(folder)
    shutil.copytree(kept, folder, symlinks=True)
    if len(commands) == 1:
        return commands
    middle = len(commands) // 2
    return culprits(folder, commands[:middle]) + culprits(folder, commands[middle:]) or [
        " THEN ".join(commands)
    ]


def approved(project: ShellProject, count: int, seed: int) -> list[str]:
    """The commands among `count` made ones that only read, as far as the analysis knows."""
    random_ = random.Random(seed)
    specs = _specs()
    real = [line.replace("⏎", "\n") for line in (*lines_of(EVERYDAY), *lines_of(DANGEROUS))]
    found = (made(random_, specs, real) for _ in range(count))
    return sorted(
        {command for command in found if project.analyse(command).read_only and "sleep" not in command}
    )


def _pack(project: ShellProject) -> None:
    """An archive of each kind, whose files nobody has unpacked yet."""
    packed = b"packed\n"
    for name, pack in (("a.gz", gzip.compress), ("a.xz", lzma.compress), ("a.bz2", bz2.compress)):
        (project.root / name).write_bytes(pack(packed))
    with zipfile.ZipFile(project.root / "a.zip", "w") as archive:
        archive.writestr("unpacked.txt", packed)
    with tarfile.open(project.root / "a.tar", "w") as tape:
        member = tarfile.TarInfo("unpacked.txt")
        member.size = len(packed)
        tape.addfile(member, io.BytesIO(packed))


def corpus_project(folder: Path) -> ShellProject:
    """A project with a repository that has a history."""
    project = shell_project(folder)
    project.git("init", "-q", "-b", "main", ".")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "first")
    (project.root / "a").write_text("changed\n")
    project.git("stash")
    (project.root / "b").write_text("changed too\n")
    (project.root / "OLD").write_text("")
    _pack(project)
    (project.home / ".npm").mkdir()  # npm makes it before it looks at anything
    (folder / "tmp").mkdir(exist_ok=True)
    run(folder.resolve(), ["true"])
    return project


def batches(commands: list[str], size: int) -> list[list[str]]:
    return [commands[start : start + size] for start in range(0, len(commands), size)]


if __name__ == "__main__":
    settings = [*sys.argv[1:], *["20000", "1"][len(sys.argv) - 1 :]]
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary).resolve() / "tree"
        home.mkdir()
        session_ = corpus_project(home)
        runnable = approved(session_, int(settings[0]), int(settings[1]))
        print(f"{settings[0]} commands made, {len(runnable)} different ones approved", flush=True)
        bad = [command for batch in batches(runnable, 100) for command in culprits(home, batch)]
    for command_ in bad:
        print(f"CHANGED SOMETHING: {command_!r}")
    print(f"{len(bad)} approved commands changed a file")
    sys.exit(1 if bad else 0)
