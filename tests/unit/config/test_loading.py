"""Settings: read, merged, refused with a sentence."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buddy.config.loading import Directories, LoadedSettings, directories, load, read_table
from buddy.config.settings import ConfigError, Profile, Settings, profile_of

ROOT = Path(__file__).resolve().parents[3]


def loaded(
    tmp_path: Path, *, user: str = "", project: str = "", trusted: bool = True, **more: Any
) -> LoadedSettings:
    config = tmp_path / "config"
    workspace = tmp_path / "work"
    config.mkdir(exist_ok=True)
    workspace.mkdir(exist_ok=True)
    if user:
        (config / "buddy.toml").write_text(user)
    if project:
        (workspace / "buddy.toml").write_text(project)
    where = Directories(str(config), str(tmp_path), str(tmp_path), str(tmp_path), str(tmp_path))
    return load(
        where=where,
        workspace=str(workspace),
        trusted=trusted,
        environment=more.get("environment", {}),
        arguments=more.get("arguments", {}),
        user_file=more.get("user_file", ""),
    )


def test_without_any_file_the_defaults_hold(tmp_path: Path) -> None:
    assert loaded(tmp_path).settings == Settings()


def test_arguments_win_over_the_environment_the_project_what_was_saved_and_the_user(tmp_path: Path) -> None:
    user = "[display]\nvi = true\nfold_lines = 1\n[agent]\nmax_iterations = 10\n"
    user += "[tools]\nshell_time_limit_s = 5\n"
    found = loaded(
        tmp_path,
        user=user,
        project="[agent]\nmax_iterations = 20\n[display]\nfold_lines = 2\n",
        environment={"BUDDY_DISPLAY_FOLD_LINES": "3", "BUDDY_DISPLAY_BELL": "false"},
        arguments={"display": {"fold_lines": 4}},
    ).settings
    assert (found.display.fold_lines, found.agent.max_iterations) == (4, 20)
    assert (found.display.vi, found.display.bell, found.tools.shell_time_limit_s) == (True, False, 5)


def test_a_project_is_ignored_until_it_is_trusted_and_says_so(tmp_path: Path) -> None:
    found = loaded(tmp_path, project="[agent]\nmax_iterations = 20\n", trusted=False)
    assert found.settings == Settings()
    assert found.warnings == (
        "buddy.toml of this folder is ignored until you trust the folder (/trust, --trust)",
    )


def test_SEC_044_a_trusted_project_still_redirects_no_traffic_and_widens_nothing(tmp_path: Path) -> None:
    project = (
        '[api]\nbase_url = "http://evil"\nmodel = "x"\n'
        '[sandbox]\nlevel = "off"\n[agent]\nmodel = "evil/model"\n'
        "[tools]\nshell_time_limit_s = 9999\ndisabled = ['grep']\n[permissions]\nallow = ['Bash(*)']\n"
    )
    found = loaded(tmp_path, project=project, user="[tools]\ndisabled = ['time']\n")
    assert found.settings.api == Profile()
    assert found.settings.sandbox.level == "auto"
    assert found.settings.agent.model == ""
    assert found.settings.tools.shell_time_limit_s == 120
    assert found.settings.tools.disabled == ("time", "grep")
    assert found.settings.permissions.allow == ()
    assert len(found.warnings) == 4


@pytest.mark.parametrize(
    "line",
    [
        'directory = "/other/project"',
        "keep_days = 0.00001",
        "keep_days = 9999.0",
        "keep_count = 1",
        "trash_days = 0",
        "trash_mb = 0",
        "checkpoints = false",
    ],
)
def test_RU_M9_a_project_decides_nothing_about_kept_sessions(tmp_path: Path, line: str) -> None:
    found = loaded(tmp_path, project=f"[session]\n{line}\n")

    assert found.settings.session == Settings().session
    (warning,) = found.warnings
    assert warning.endswith(f"[session] {line.split()[0]} can only be set in your own buddy.toml; left out")


def test_RU_M9_a_project_may_ask_for_checkpoints(tmp_path: Path) -> None:
    user = "[session]\ncheckpoints = false\nkeep_days = 3.0\n"
    found = loaded(tmp_path, user=user, project="[session]\ncheckpoints = true\n")

    assert (found.settings.session.checkpoints, found.settings.session.keep_days) == (True, 3.0)
    assert found.warnings == ()


def test_a_trusted_project_makes_limits_of_commands_smaller_and_never_larger(tmp_path: Path) -> None:
    user = "[tools]\nshell_memory_mb = 500\nshell_file_mb = 10\nshell_open_files = 100\n"
    project = "[tools]\nshell_memory_mb = 0\nshell_file_mb = 9\nshell_open_files = 5000\nshell_cpu_s = 3\n"
    found = loaded(tmp_path, user=user, project=project).settings.tools
    limits = (found.shell_memory_mb, found.shell_file_mb, found.shell_open_files, found.shell_cpu_s)
    assert limits == (500, 9, 100, 3)
    assert found.shell_processes == 0
    untrusted = loaded(tmp_path, user=user, project=project, trusted=False).settings.tools
    assert (untrusted.shell_memory_mb, untrusted.shell_file_mb, untrusted.shell_cpu_s) == (500, 10, 0)
    only = loaded(tmp_path, user=user, project="[tools]\ndisabled = ['time']\n").settings.tools
    assert (only.shell_memory_mb, only.shell_file_mb) == (500, 10)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[api\n", "line 1 is not valid TOML: expected ']' at the end of a table declaration"),
        ("x = " + "[" * 100_000, "nested too deeply"),
        ('[api]\nmodle = "x"\n', "[api] unknown name 'modle'; did you mean 'model'?"),
        ("[apis]\n", "unknown name 'apis'; did you mean 'api'?"),
        ("[api]\ncontext_limit = 'x'\n", "[api] context_limit: expected a whole number from 0, found text"),
        (
            "[tools]\nshell_file_mb = -5\n",
            "[tools] shell_file_mb: expected a whole number from 0 to 1,000,000,000, found -5",
        ),
        (
            "[tools]\nshell_cpu_s = 1.5\n",
            "[tools] shell_cpu_s: expected a whole number from 0 to 1,000,000,000, found 1.5",
        ),
        ("[budget]\nday_usd = nan\n", "[budget] day_usd: expected a number from 0 to 1,000,000, found nan"),
        ("[budget]\ntask_usd = -1\n", "[budget] task_usd: expected a number from 0 to 1,000,000, found -1"),
        ("[budget]\nsession_usd = inf\n", "session_usd: expected a number from 0 to 1,000,000, found inf"),
        ("[budget]\ntask_tokens = -1\n", "[budget] task_tokens: expected a whole number from 0, found -1"),
        (
            "[agent]\nmax_iterations = 0\n",
            "max_iterations: expected a whole number from 1 to 1,000,000, found 0",
        ),
        ("[network]\nconnect_s = 0\n", "connect_s: expected a number above 0 to 31,536,000, found 0"),
        (
            "[network]\nfirst_token_s = nan\n",
            "first_token_s: expected a number above 0 to 31,536,000, found nan",
        ),
        ("[network]\ntries = 0\n", "tries: expected a whole number from 1 to 1,000,000, found 0"),
        (
            "[tools]\nshell_output_bytes = -1\n",
            "shell_output_bytes: expected a whole number from 100 to 100,000,000, found -1",
        ),
        (
            "[display]\nfold_lines = -5\n",
            "fold_lines: expected a whole number from 0 to 1,000,000,000, found -5",
        ),
        ("[session]\nkeep_days = -1\n", "keep_days: expected a number from 0 to 1,000,000, found -1"),
        ("[models.fast]\ntemperature = nan\n", "temperature: expected a number from 0 to 10, found nan"),
        ("api = 3\n", "[api] must be a table, found int"),
        ("[models.fast]\nkey = 1\n", "[models.fast] unknown name 'key'"),
        ("[models]\nfast = 1\n", "[models.fast]: expected a table, found 1"),
        ('[permissions]\nmode = "yolo"\n', ""),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_its_file(tmp_path: Path, text: str, says: str) -> None:
    if not says:
        expected = "[permissions] mode: expected plan, ask, edit or auto, found 'yolo'"
        assert expected in loaded(tmp_path, user=text).permission_error
        return
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, user=text)
    assert says in str(caught.value)
    assert str(tmp_path / "config" / "buddy.toml") in str(caught.value)


def lowest_free_descriptor() -> int:
    with open(os.devnull) as file:
        return file.fileno()


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file; give --config an existing one"):
        loaded(tmp_path, user_file=str(tmp_path / "none.toml"))
    (tmp_path / "latin.toml").write_bytes(b"# \xff\n")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        loaded(tmp_path, user_file=str(tmp_path / "latin.toml"))
    free = lowest_free_descriptor()
    with pytest.raises(ConfigError, match="not a regular file"):
        loaded(tmp_path, user_file=str(tmp_path))
    assert lowest_free_descriptor() == free
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(ConfigError, match="not a regular file"):
        loaded(tmp_path, user_file=str(tmp_path / "pipe.toml"))
    with (tmp_path / "large.toml").open("wb") as file:
        file.truncate(8 << 30)
    with pytest.raises(ConfigError, match="8,589,934,592 bytes; a settings file has at most 1,000,000"):
        loaded(tmp_path, user_file=str(tmp_path / "large.toml"))


def test_an_environment_variable_of_the_wrong_kind_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="BUDDY_DISPLAY_FOLD_LINES"):
        loaded(tmp_path, environment={"BUDDY_DISPLAY_FOLD_LINES": "many"})
    with pytest.raises(
        ConfigError,
        match="BUDDY_TOOLS_SHELL_CPU_S: expected a whole number from 0 to 1,000,000,000, found '-1'",
    ):
        loaded(tmp_path, environment={"BUDDY_TOOLS_SHELL_CPU_S": "-1"})


@pytest.mark.parametrize("name", ["BUDDY_PERMISSIONS_MODE", "BUDDY_PERMISSION_MODE"])
@pytest.mark.parametrize("value", ["edti", "yolo"])
def test_WALK_2_a_variable_with_a_wrong_mode_ends_the_start(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, environment={name: value})
    assert str(caught.value) == f"{name}: expected plan, ask, edit or auto, found '{value}'"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('mode = "edti"', "[permissions] mode: expected plan, ask, edit or auto, found 'edti'"),
        ('allow = "Bash(ls)"', "[permissions] allow: expected a list, found text"),
        ("deny = [1]", "[permissions] deny: expected text, found 1"),
    ],
)
def test_WALK_2_permissions_that_cannot_be_used_are_told_in_words(
    tmp_path: Path, text: str, says: str
) -> None:
    assert loaded(tmp_path, user=f"[permissions]\n{text}\n").permission_error.endswith(says)


def test_profiles_are_found_by_name_and_models_by_theirs() -> None:
    fast = Profile(model="openai/gpt-5-mini")
    settings = Settings(api=Profile(model="openai/gpt-5.2", api_key_env="K"), models={"fast": fast})
    assert profile_of(settings) == settings.api
    assert profile_of(settings, "fast") == fast
    assert profile_of(settings, "openai/gpt-4.1") == Profile(model="openai/gpt-4.1", api_key_env="K")
    assert profile_of(settings, "anthropic/claude") == Profile(model="anthropic/claude")


def test_directories_follow_xdg_and_ignore_relative_ones() -> None:
    found = directories({"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "relative"})
    assert found == Directories(
        "/c/buddy", "/h/.local/share/buddy", "/h/.local/state/buddy", "/h/.cache/buddy", "/h"
    )


def test_every_setting_has_a_line_in_the_example_and_the_example_is_the_default() -> None:
    text = (ROOT / "buddy.toml.example").read_text()
    example = tomllib.loads(text)
    parsed = msgspec.convert(example, Settings)
    for section in Settings.__struct_fields__:
        if section in ("models", "mcp_servers", "rule", "targets"):
            assert re.search(rf"^#? ?\[+{section}[.\]]", text, re.MULTILINE), section
            continue
        record = getattr(Settings(), section)
        start = text.index(f"\n[{section}]")
        body = text[start : text.find("\n[", start + 1) if text.find("\n[", start + 1) > 0 else None]
        for field in record.__struct_fields__:
            assert re.search(rf"^#? ?{field} = ", body, re.MULTILINE), f"[{section}] {field} has no line"
            if section != "api":
                assert getattr(getattr(parsed, section), field) == getattr(record, field), (
                    f"[{section}] {field}"
                )


def test_the_first_run_file_is_valid() -> None:
    data = tomllib.loads((ROOT / "templates" / "buddy.toml").read_text())
    assert msgspec.convert(data, Settings).api.model == "anthropic/claude-sonnet-5-5"


# --- the environment --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("BUDDY_PERMISSIONS_MODE", "plan", lambda s: s.permissions.mode == "plan"),
        ("BUDDY_PERMISSION_MODE", "plan", lambda s: s.permissions.mode == "plan"),
        ("BUDDY_PERMISSION_MODE", "acceptEdits", lambda s: s.permissions.mode == "edit"),
        (
            "BUDDY_PERMISSIONS_ALLOW",
            "Bash(ls),Read(a)",
            lambda s: s.permissions.allow == ("Bash(ls)", "Read(a)"),
        ),
        ("BUDDY_MODELS_FAST_MODEL", "openai/x", lambda s: s.models["fast"].model == "openai/x"),
        (
            "BUDDY_MODELS_MY_OWN_BASE_URL",
            "http://h/v1",
            lambda s: s.models["my-own"].base_url == "http://h/v1",
        ),
        ("BUDDY_NETWORK_TRIES", "3", lambda s: s.network.tries == 3),
        ("BUDDY_MODEL", "openai/y", lambda s: s.agent.model == "openai/y"),
        ("BUDDY_AGENT_MODEL", "openai/y", lambda s: s.agent.model == "openai/y"),
    ],
)
def test_RU_5_20_every_variable_of_the_documented_scheme_works(tmp_path, name, value, found) -> None:
    mine = '[models.fast]\nmodel = "openai/a"\n[models.my-own]\nmodel = "openai/b"\n'
    got = loaded(tmp_path, user=mine, environment={name: value})
    assert found(got.settings)
    assert got.warnings == ()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("BUDDY_DISPLAY_THEM", "did you mean BUDDY_DISPLAY_THEME?"),
        ("BUDDY_PERMISSIONS_MOD", "did you mean BUDDY_PERMISSIONS_MODE?"),
        ("BUDDY_MODELS_SLOW_MODEL", "BUDDY_"),
        ("BUDDY_RULE", "BUDDY_"),
        ("BUDDY_XYZZY_QUUX_PLUGH", "settings are BUDDY_<SECTION>_<KEY>; see buddy init --print"),
    ],
)
def test_RU_5_20_a_variable_that_is_no_setting_is_told(tmp_path, name: str, hint: str) -> None:
    (warning,) = loaded(tmp_path, environment={name: "x"}).warnings
    assert warning.startswith(f"{name} is no setting and has no effect; ")
    assert hint in warning


@pytest.mark.parametrize("name", ["BUDDY_SESSION_ID", "BUDDY_TASK_ID", "BUDDY_JOB", "BUDDYX", "MY_BUDDY_X"])
def test_RU_5_20_variables_of_others_are_left_alone(tmp_path, name: str) -> None:
    assert loaded(tmp_path, environment={name: "x"}).warnings == ()


def test_a_line_of_a_settings_file_that_is_no_toml_is_named_and_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "buddy.toml"
    path.write_text('[api]\nmodel = "a"\nkey = sk-secret\n')
    with pytest.raises(ConfigError) as caught:
        read_table(str(path), required=True)
    assert str(caught.value) == (
        f"{path}: line 3 is not valid TOML: invalid value (text needs quotes). "
        "Correct it, or move the file away"
    )
