"""The launch context: workspace, directories, trust, settings and the session store."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from typing import Any

import msgspec

from buddy.app.options import Options, UsageError
from buddy.config.loading import Directories, LoadedSettings, directories, load
from buddy.config.settings import ConfigError
from buddy.safety.paths import Boundary
from buddy.sessions.folder import workspace_root


class LaunchContext(msgspec.Struct, frozen=True):
    """The folders, environment and trust buddy was started with."""

    boundary: Boundary
    where: Directories
    environment: Mapping[str, str]
    is_repository: bool
    trusted: bool
    trust_note: str = ""


def find_launch(options: Options, environment: Mapping[str, str], *, folder: str = "") -> LaunchContext:
    """Find the launch context of a folder, the working directory for "". Raises `UsageError` when that no
    longer exists."""
    where = directories(environment)
    try:
        cwd = os.path.realpath(folder or os.getcwd())
    except FileNotFoundError:
        raise UsageError(
            "the working directory no longer exists; change to another one and start again"
        ) from None
    root = os.path.realpath(workspace_root(cwd))
    extra = tuple(_resolve_directory(path) for path in options.add_dir)
    trusted, note = _trust(where, root)
    if options.setting_sources is not None and "project" not in options.setting_sources.split(","):
        # Nothing of the project's own counts, as if it was not trusted.
        trusted, note, options = False, "", msgspec.structs.replace(options, trust=False)
    return LaunchContext(
        boundary=Boundary(
            root,
            cwd,
            os.path.realpath(where.home),
            extra,
            _own_paths(where, options),
            trusts_repository=options.trust or trusted,
            git_settings=_git_settings(environment),
        ),
        where=where,
        environment=environment,
        is_repository=os.path.lexists(os.path.join(root, ".git")),
        trusted=options.trust or trusted,
        trust_note="" if options.trust else note,
    )


def refresh_launch(launch: LaunchContext, options: Options) -> LaunchContext:
    """Return the launch context with the trust decisions made since it was found."""
    trusted, note = _trust(launch.where, launch.boundary.root)
    trusted = options.trust or trusted
    return msgspec.structs.replace(
        launch,
        boundary=msgspec.structs.replace(launch.boundary, trusts_repository=trusted),
        trusted=trusted,
        trust_note="" if options.trust else note,
    )


def _git_settings(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files with the user's or the system's git settings that variables name."""
    config = environment.get("XDG_CONFIG_HOME", "")
    named = (
        os.path.join(config, "git/config") if config else "",
        environment.get("GIT_CONFIG_GLOBAL", ""),
        environment.get("GIT_CONFIG_SYSTEM", ""),
    )
    return tuple(dict.fromkeys(path for path in named if os.path.isabs(path)))


def _own_paths(where: Directories, options: Options) -> tuple[str, ...]:
    """Return buddy's own folders and the settings file in use: protected wherever they are."""
    folders = (where.config, where.data, where.state, where.cache)
    return tuple(os.path.realpath(path) for path in (*folders, options.config) if path)


def _trust(where: Directories, root: str) -> tuple[bool, str]:
    if not os.path.lexists(os.path.join(where.state, "trust.json")):
        return False, ""
    from buddy.app.trust_state import (
        trust_of,
    )  # saves 8 ms of start-up for everybody without trusted folders

    return trust_of(where, root)


def read_settings(launch: LaunchContext, options: Options) -> LoadedSettings:
    """Read the settings of this run. Raises `ConfigError`."""
    arguments: dict[str, Any] = {}
    if options.model:
        arguments["agent"] = {"model": options.model}
    if options.color:
        arguments["display"] = {"color": options.color}
    loaded = load(
        where=launch.where,
        workspace=launch.boundary.root,
        trusted=launch.trusted,
        environment=launch.environment,
        arguments=arguments,
        user_file=options.config,
        saved_keys=lambda: read_saved_keys(launch.where),
    )
    if options.changes_settings:
        from buddy.app.run_settings import apply_options  # only with such an option

        return apply_options(loaded, options, launch.boundary, trusted=launch.trusted)
    return loaded


def read_saved_keys(where: Directories) -> Container[str]:
    """Return the providers whose key `buddy login` saved, in its file or the keyring. Raises
    `ConfigError`."""
    from buddy.llm.keys import (  # only needed when no model is set
        FILE_NAME,
        CredentialsError,
        read_credentials,
    )

    try:
        return read_credentials(os.path.join(where.data, FILE_NAME), warn=lambda _: None)
    except CredentialsError as error:
        raise ConfigError(str(error)) from error


def _resolve_directory(path: str) -> str:
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise UsageError(f"--add-dir: {path!r} is not a directory")
    return real


def check_yolo(options: Options, environment: Mapping[str, str]) -> None:
    """Raise `UsageError` for yolo as root outside a container."""
    is_container = (
        os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv") or "container" in environment
    )
    if options.permission_mode == "yolo" and os.geteuid() == 0 and not is_container and not options.i_know:
        raise UsageError(
            "yolo as root outside a container runs anything the model says; add --i-know if you mean it"
        )


STATE_ELSEWHERE = "set XDG_STATE_HOME to a folder you can write to"
