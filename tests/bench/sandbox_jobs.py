# ruff: noqa: E501 - commands are read best in one line
"""Twenty everyday jobs in the sandbox, at each level: python -m tests.bench.sandbox_jobs [NAME…]

With BUDDY_BENCH_NETWORKS="10.0.0.0/8 …" allowed hosts may lead to these private networks, as mirrors do.

By hand: it uses whatever compilers are installed and the package registries. Prints a line for each job and
level: how it ended, and what the sandbox refused it. A job whose program is missing is left out.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from buddy.safety.paths import Boundary
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.launch import shell_argv
from buddy.workspace.processes.output import OutputBounds
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest, ProcessSettings
from buddy.workspace.sandbox.probe import ProbeResult
from buddy.workspace.sandbox.profile import Confinement, SandboxRules
from buddy.workspace.sandbox.sandbox import Sandbox
from tests.support.sandbox_machine import LOOKS

PYPI = ("pypi.org", "files.pythonhosted.org")
NPM = ("registry.npmjs.org",)
CRATES = ("index.crates.io", "static.crates.io")


class Job(msgspec.Struct, frozen=True):
    """A command that must end with 0. `needs`: its program; `hosts`: what the person opened for it."""

    name: str
    needs: str
    command: str
    hosts: tuple[str, ...] = ()


SERVE = "{python} -m http.server 8123 --bind 127.0.0.1 >log 2>&1 & server=$!; "
ASK = "for i in $(seq 50); do curl -sf http://127.0.0.1:8123/ >page && break; sleep 0.1; done; kill $server; "
JOBS = (
    Job("venv, pip install", "python3", "{python} -m venv v && v/bin/pip install -q six && v/bin/python -c 'import six'", PYPI),
    Job("pip install -e", "python3", "{python} -m venv v && printf '[project]\\nname=\"x\"\\nversion=\"1\"\\n[tool.setuptools]\\npy-modules=[\"m\"]' > pyproject.toml && echo a=1 > m.py && v/bin/pip install -q -e . && v/bin/python -c 'import m'", PYPI),
    Job("pytest", "python3", "printf 'def test_a(tmp_path):\\n    (tmp_path / \"f\").write_text(\"x\")\\n' > test_a.py && {python} -m pytest -q test_a.py"),
    Job("multiprocessing", "python3", "printf 'import multiprocessing as m\\nif __name__ == \"__main__\":\\n    with m.Pool(2) as p: print(p.map(abs, [-1, -2]))\\n' > a.py && {python} a.py"),
    Job("asyncio and sockets in tests", "python3", "{python} -c 'import asyncio\nasync def a():\n s=await asyncio.start_server(lambda r,w: w.close(),\"127.0.0.1\",0)\n await asyncio.open_connection(\"127.0.0.1\",s.sockets[0].getsockname()[1])\nasyncio.run(a())'"),
    Job("sqlite", "python3", "{python} -c 'import sqlite3; c=sqlite3.connect(\"a.db\"); c.execute(\"pragma journal_mode=wal\"); c.execute(\"create table t(a)\"); c.commit()'"),
    Job("npm test", "npm", "printf '{{\"scripts\":{{\"test\":\"node --test\"}}}}' > package.json && printf 'require(\"node:test\")(\"a\",()=>{{}})' > a.test.js && npm test"),
    Job("npm install", "npm", "printf '{{\"name\":\"x\",\"version\":\"1.0.0\"}}' > package.json && npm install is-odd", NPM),
    Job("node server", "node", "node -e 'const s=require(\"http\").createServer((q,r)=>r.end(\"ok\")).listen(0,\"127.0.0.1\",async()=>{{console.log(await (await fetch(\"http://127.0.0.1:\"+s.address().port)).text());s.close()}})'"),
    Job("cargo build", "cargo", "cargo init -q --name x . && cargo build -q --offline && ./target/debug/x"),
    Job("cargo test", "cargo", "cargo init -q --lib --name y . && cargo test -q --offline"),
    Job("cargo add", "cargo", "cargo init -q --name x . && cargo add -q itoa && cargo build -q", CRATES),
    Job("go test", "go", "go mod init x && printf 'package x\\nimport \"testing\"\\nfunc TestA(t *testing.T) {{}}' > a_test.go && go test ./..."),
    Job("make", "make", "printf 'a: a.c\\n\\tcc -o a a.c\\n' > Makefile && echo 'int main(){{return 0;}}' > a.c && make -j2 && ./a"),
    Job("git commit", "git", "git init -q . && git config user.name A && git config user.email a@b.c && touch f && git add f && git commit -qm x"),
    Job("git branch, merge, stash", "git", "git init -q r && cd r && git config user.name A && git config user.email a@b.c && echo 1 > f && git add . && git commit -qm x && git switch -qc b && echo 2 > f && git commit -qam y && git switch -q - && git merge -q b && echo 3 > f && git stash -q && git gc -q && git worktree add -q ../w"),
    Job("dev server, curl", "curl", SERVE + ASK + "grep -q listing page"),
    Job("gdb", "gdb", "echo 'int main(){{return 7;}}' > a.c && cc -g -o a a.c && gdb -q -batch -ex run -ex bt ./a | grep -q 'exited with code 07'"),
    Job("strace", "strace", "strace -o log true && grep -q exit_group log"),
    Job("terminal program", "script", "script -qec 'tty; stty size' /dev/null | grep -q pts"),
    Job("docker", "docker", "docker ps"),
)  # fmt: skip


async def main() -> None:
    wanted = sys.argv[1:]
    for level, look in sorted(LOOKS.items(), reverse=True):
        for job in JOBS:
            if shutil.which(job.needs) and (not wanted or job.name in wanted):
                print(f"{level}  {job.name:28} {await outcome(job, look)}", flush=True)


async def outcome(job: Job, look: Callable[[], ProbeResult]) -> str:
    """Run a job in an empty workspace beside the person's own home."""
    home = os.path.expanduser("~")
    top = Path(os.path.realpath(tempfile.mkdtemp(prefix=".buddy-job-", dir=home)))
    work = top / "work"
    work.mkdir()
    networks = tuple(os.environ.get("BUDDY_BENCH_NETWORKS", "").split())
    rules = SandboxRules(hosts=job.hosts, networks=networks)
    sandbox = Sandbox(lambda: rules, cache=str(top / "cache"), records=str(top / "records"), look=look)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    settings = ProcessSettings(str(top / "spill"), bounds=OutputBounds())
    boundary = Boundary(str(work), str(work), home)
    try:
        await sandbox.survey(boundary)
        async with ChildProcesses(ChildEnvironment(variables, "bench"), settings, sandbox) as children:
            command = job.command.format(python=sys.executable)
            request = CommandRequest(
                shell_argv(command), str(work), 1, confinement=Confinement("workspace", boundary)
            )
            done = await children.run(request, timeout_s=240, cancelled=asyncio.Event())
            told = sandbox.take_repairs()
    finally:
        await sandbox.aclose()
        shutil.rmtree(top)
    refused = "; ".join((*done.blocked.paths[:4], *done.blocked.hosts, *done.blocked.addresses[:3], *told))
    ending = (
        "works"
        if done.ok
        else f"FAILS ({done.exit.code}): {' | '.join(done.text.strip().splitlines()[-3:])[:300]}"
    )
    return f"{ending} {done.exit.seconds:.1f} s" + (f"  [refused: {refused[:300]}]" if refused else "")


if __name__ == "__main__":
    asyncio.run(main())
