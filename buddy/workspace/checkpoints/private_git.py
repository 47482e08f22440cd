"""The private git repository that keeps states of the working tree.

It lies in the session's folder, with an index, objects and a configuration of its own; the working tree is
the workspace. In a repository its objects are found through `alternates`, so that nothing is stored twice.
The person's `.git` is only ever read: no index, ref, stash, hook or configuration of theirs is touched, and
none of their filters or attributes apply, because a state is kept byte for byte. What an undo needs is kept
elsewhere as well, so nothing here is synced: for 5,000 new files that takes 2 s instead of 4.

Git runs programs that a configuration names, and the folder may have been brought by somebody: one without
the session's seal is thrown away, and the configuration is put right before every command.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from buddy.agent.cancel import on_failure
from buddy.safety.git_repository import files_that_wait, git_folders, read_regular
from buddy.safety.paths import make_private_folders, replace_file
from buddy.safety.sanitise import visible
from buddy.safety.seal import Seal
from buddy.workspace.git.config import Setting, list_command, parse_settings
from buddy.workspace.git.waiting import WaitingError, communicate, describe_waiting, waits
from buddy.workspace.processes.launch import trusted_program

SETUP_LIMIT_S = 5.0
_CONFIG = """[core]
\trepositoryformatversion = {version}
\tbare = false
\tsharedRepository = 0600
\tlooseCompression = 1
\tautocrlf = false
\tsafecrlf = false
\tsplitIndex = false
\tfsmonitor = false
\thooksPath = /dev/null
\tuntrackedCache = false
\tquotePath = false
\tlogAllRefUpdates = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""
_SHA256 = "[extensions]\n\tobjectFormat = sha256\n"
_SEAL = "buddy-seal"
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding -eol\n"


class CheckpointError(Exception):
    """No state can be kept; one sentence for the person."""


class WaitingTreeError(CheckpointError):
    """No state can be kept for as long as a pipe stands where git reads a file."""

    def __init__(self, path: str, root: str) -> None:
        super().__init__(f"no checkpoint: {describe_waiting(path, root)}")
        self.path = path


class PrivateGit(msgspec.Struct, frozen=True):
    """A private repository over a working tree, and the git that works on it."""

    git: str
    directory: str
    root: str
    config: str

    def run(self, arguments: Sequence[str], *, limit_s: float, given: bytes = b"") -> bytes:
        """Run a git command and return its output. Raises `CheckpointError`."""
        with self.start(arguments) as said:
            return said(limit_s, given)

    @contextmanager
    def start(self, arguments: Sequence[str]) -> Generator[Callable[[float, bytes], bytes]]:
        """Start a command in the background; call the yielded function with a time limit and the input to get
        the output. Raises `CheckpointError`."""
        self._enforce_config()
        try:
            process = subprocess.Popen(
                (self.git, "--literal-pathspecs", *arguments),
                cwd=self.root,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise CheckpointError(f"git could not be started: {error.strerror}") from error
        with process, on_failure(process.kill):
            yield lambda limit_s, given: self._output_of(process, arguments[0], limit_s, given)

    def _output_of(self, process: subprocess.Popen[bytes], name: str, limit_s: float, given: bytes) -> bytes:
        try:
            output, errors = communicate(process, self.root, limit_s, given)
        except WaitingError as error:
            raise WaitingTreeError(error.path, self.root) from None
        except subprocess.TimeoutExpired as error:
            raise CheckpointError(
                f"looking at the working tree took longer than {limit_s:.0f} s; it is too large for "
                "checkpoints"
            ) from error
        if process.returncode != 0:
            first = errors.decode("utf-8", "replace").strip().split("\n")[0]
            raise CheckpointError(f"git {name} failed: {first[:300]}")
        return output

    def _enforce_config(self) -> None:
        """Make the configuration the one buddy writes, wherever git would read it. Raises
        `CheckpointError`."""
        try:
            for other in ("commondir", "config.worktree"):
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.directory, other))
            if _regular_text(os.path.join(self.directory, "config")) != self.config:
                _put(self.directory, "config", self.config)
        except OSError as error:
            raise CheckpointError(f"the checkpoints' git can't be set up: {error.strerror}") from error

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.path.dirname(self.git),
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_DIR": self.directory,
            "GIT_WORK_TREE": self.root,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_VALUE_0": "false",
            "GIT_CONFIG_KEY_1": "core.hooksPath",
            "GIT_CONFIG_VALUE_1": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_TERMINAL_PROMPT": "0",
        }

    @property
    def index(self) -> str:
        """Return the private index."""
        return os.path.join(self.directory, "index")


def private_git(directory: str, root: str, variables: dict[str, str], seal: Seal | None = None) -> PrivateGit:
    """Return the private repository of a session, made when it is not there yet; some milliseconds.
    `variables` is the person's environment (for what they ignore everywhere). With `seal`, one that does not
    carry it is thrown away and made anew. Raises `CheckpointError`."""
    git = trusted_program("git", variables.get("PATH", ""), root)
    if git is None:
        raise CheckpointError("git is not installed; effects of commands can't be taken back")
    import shutil  # here: 2 ms, with the compressors it knows, that a start need not pay

    check_usual_files(root)
    mark = seal.derive("checkpoints", directory, root).of(b"") if seal is not None else ""
    try:
        if _is_ours(directory, mark):
            return PrivateGit(git, directory, root, _config(directory))
        if os.path.islink(directory):
            os.unlink(directory)
        elif seal is not None and os.path.isdir(directory):
            shutil.rmtree(directory)
    except OSError as error:
        raise CheckpointError(
            f"the checkpoints in {visible(directory)} were not made by this session and can't be removed: "
            f"{error.strerror}"
        ) from error
    theirs = _Theirs.of(git, root, variables)
    try:
        _lay_out(directory, theirs, root, variables, mark)
        found = PrivateGit(git, directory, root, _config(directory))
        if theirs is not None and theirs.may_seed:
            with suppress(OSError):  # without it the first state takes longer, that is all
                shutil.copyfile(theirs.index, found.index)
    except OSError as error:
        raise CheckpointError(f"the folder for checkpoints can't be made: {error.strerror}") from error
    return found


def check_usual_files(root: str) -> None:
    """Raise `WaitingTreeError` for a pipe at the places git always reads; some 50 microseconds."""
    folders = dict.fromkeys((os.path.join(root, ".git"), *git_folders(root)))
    for path in (path for folder in folders for path in files_that_wait(root, root, folder)):
        if waits(path):
            raise WaitingTreeError(path, root)


def _is_ours(directory: str, mark: str) -> bool:
    """Tell whether the folder is there, carries this mark ("": none is asked for), and leads nowhere else."""
    if os.path.islink(directory) or _regular_text(os.path.join(directory, "HEAD")) is None:
        return False
    if mark and _regular_text(os.path.join(directory, _SEAL)) != mark:
        return False
    parts = ("objects", "objects/info", "objects/pack", "refs", "info", "info/attributes", "index")
    return not any(os.path.islink(os.path.join(directory, part)) for part in parts)


def _config(directory: str) -> str:
    """Return the configuration of the folder's kind of repository: its object format is all that is taken
    from the one that is there."""
    sha256 = _SHA256 in (_regular_text(os.path.join(directory, "config")) or "")
    return _CONFIG.format(version=int(sha256)) + (_SHA256 if sha256 else "")


def _regular_text(path: str) -> str | None:
    """Return a short text in a regular file, None for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.fsdecode(file.read(100_000))


class _Theirs(msgspec.Struct, frozen=True):
    """Facts read from the user's repository. `may_seed`: its index describes files byte for byte as they are
    on disk, so a copy of it saves reading them all."""

    objects: str
    index: str
    excluded: str
    object_format: str
    settings: tuple[Setting, ...]
    may_seed: bool

    @classmethod
    def of(cls, git: str, root: str, variables: dict[str, str]) -> _Theirs | None:
        if not os.path.lexists(os.path.join(root, ".git")):
            return None
        env = {"PATH": os.path.dirname(git), "LC_ALL": "C", "HOME": variables.get("HOME", "/nonexistent")}
        asked = ["rev-parse", "--show-object-format"]
        for path in ("objects", "index", "info/exclude"):
            asked += ["--git-path", path]
        paths = _query((git, *asked), root, env).split("\n")
        if len(paths) < 4:
            return None
        settings = parse_settings(_query((git, *list_command(git)[1:]), root, env))
        objects, index, excluded = (os.path.join(root, path) for path in paths[1:4])
        seed = _is_plain_index(index) and not _converts(root, settings, excluded, variables)
        return cls(objects, index, excluded, paths[0], settings, seed)


def _query(argv: Sequence[str], root: str, env: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            argv,
            cwd=root,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SETUP_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(done.stdout) if done.returncode == 0 else ""


def _is_plain_index(path: str) -> bool:
    """Tell whether an index stores full paths (version 2 or 3) and tracks no `.gitattributes`."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return False
    version = int.from_bytes(data[4:8], "big")
    return data[:4] == b"DIRC" and version in (2, 3) and b".gitattributes" not in data


def _converts(root: str, settings: tuple[Setting, ...], excluded: str, variables: dict[str, str]) -> bool:
    """Tell whether git may store a file with other bytes than it has on disk."""
    values = {setting.key.lower(): setting.value.strip().lower() for setting in settings}
    config = variables.get("XDG_CONFIG_HOME") or os.path.join(variables.get("HOME", ""), ".config")
    attributes = (
        os.path.join(root, ".gitattributes"),
        os.path.join(os.path.dirname(excluded), "attributes"),
        os.path.join(config, "git/attributes"),
    )
    return (
        values.get("core.autocrlf", "false") not in ("false", "0", "no", "off")
        or "core.attributesfile" in values
        or any(os.path.exists(path) for path in attributes)
    )


def _lay_out(directory: str, theirs: _Theirs | None, root: str, variables: dict[str, str], mark: str) -> None:
    for folder in ("objects/info", "refs", "info"):
        make_private_folders(os.path.join(directory, folder))
    os.chmod(directory, 0o700)
    sha256 = theirs is not None and theirs.object_format == "sha256"
    _put(directory, "config", _CONFIG.format(version=int(sha256)) + (_SHA256 if sha256 else ""))
    _put(directory, "info/attributes", _ATTRIBUTES)
    _put(directory, "info/exclude", _ignore_rules(theirs, variables) + _own_place(directory, root))
    if theirs is not None and "\n" not in theirs.objects:
        _put(directory, "objects/info/alternates", theirs.objects + "\n")
    if mark:
        _put(directory, _SEAL, mark)
    _put(directory, "HEAD", "ref: refs/heads/none\n")  # last: it says that all is there


def _ignore_rules(theirs: _Theirs | None, variables: dict[str, str]) -> str:
    """Return the user's ignore rules, global and of this repository, and a rule for buddy's own folder."""
    home = variables.get("HOME", "")
    config = variables.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    everywhere = os.path.join(config, "git/ignore")
    for setting in theirs.settings if theirs is not None else ():
        if setting.key.lower() == "core.excludesfile" and not setting.is_own:
            everywhere = os.path.join(home, setting.value.removeprefix("~/"))
    texts = [_text(everywhere), _text(theirs.excluded) if theirs is not None else "", "/.buddyx/\n"]
    return "\n".join(texts)


def _own_place(directory: str, root: str) -> str:
    """Return the session's folder where it lies somewhere else in the workspace."""
    beneath = os.path.relpath(os.path.dirname(directory), root)
    if beneath == "." or beneath.startswith("..") or "\n" in beneath:
        return ""
    return "/" + "".join(f"\\{letter}" if letter in "\\*?[ " else letter for letter in beneath) + "/\n"


def _text(path: str) -> str:
    return read_regular(path, 100_000).decode("utf-8", "surrogateescape")


def _put(directory: str, name: str, text: str) -> None:
    replace_file(os.path.join(directory, name), text.encode("utf-8", "surrogateescape"), sync=False)
