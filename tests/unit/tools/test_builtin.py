"""The tools a model is offered, and the names it may call them by."""

from __future__ import annotations

import pytest

from buddy.agent.tool import ToolRegistry
from buddy.tools.builtin import BUILTIN_TOOLS, offered, prefers_patches

ALL = ToolRegistry(BUILTIN_TOOLS)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("create_file", "write_file"),
        ("shell", "run_shell"),
        ("bash", "run_shell"),
        ("grep_search", "grep"),
        ("str_replace", "edit_file"),
        ("Task", "delegate"),
        ("AskUserQuestion", "ask_user"),
    ],
)
def test_names_that_models_know_are_accepted(alias: str, name: str) -> None:
    found = ALL.get(alias)
    assert found is not None
    assert found.name == name


def test_no_alias_hides_another_tools_name() -> None:
    names = {tool.name for tool in BUILTIN_TOOLS}
    assert [alias for tool in BUILTIN_TOOLS for alias in tool.aliases if alias in names] == []
    aliases = [alias for tool in BUILTIN_TOOLS for alias in tool.aliases]
    assert sorted(aliases) == sorted(set(aliases))


@pytest.mark.parametrize(
    ("model", "patches"),
    [
        ("gpt-5.2", True),
        ("openai/gpt-5-mini", True),
        ("openrouter/openai/gpt-5.1", True),
        ("codex-mini-latest", True),
        ("openai/gpt-4.1", False),
        ("anthropic/claude-sonnet-4-5", False),
        ("gemini/gemini-3-pro", False),
        ("ollama/qwen3-coder", False),
        ("", False),
    ],
)
def test_models_trained_on_patches_get_apply_patch_instead_of_edit_file(model: str, patches: bool) -> None:
    assert prefers_patches(model) is patches
    names = {tool.name for tool in offered(ALL, model).list_all()}
    assert names & {"edit_file", "apply_patch"} == {"apply_patch" if patches else "edit_file"}
    assert len(names) == len(BUILTIN_TOOLS) - 1


def test_where_one_way_to_edit_is_switched_off_every_model_gets_the_other() -> None:
    only_edit = ToolRegistry(tool for tool in BUILTIN_TOOLS if tool.name != "apply_patch")
    assert offered(only_edit, "gpt-5.2").get("edit_file") is not None


def test_a_chosen_list_is_by_names_or_aliases_and_hidden_ones_stay_hidden() -> None:
    found = offered(ALL, "m", only={"bash", "read_file", "delegate"}, hides=lambda tool: tool.delegates)
    assert [tool.name for tool in found.list_all()] == ["read_file", "run_shell"]


def test_every_tool_that_is_always_asked_about_says_what_it_does() -> None:
    silent = {tool.name for tool in BUILTIN_TOOLS if tool.risk == "high" and not tool.effect}
    assert silent == {"run_shell"}  # its command line says it


def test_every_tool_has_the_risk_of_the_table_of_modes() -> None:
    table = {
        "low": "ask_user capture_pane find_definition find_files git_branch git_diff git_log git_show "
        "git_status grep list_files list_jobs read_file read_job retrieve_variant search_tools time todo",
        "medium": "apply_patch copy_file delegate edit_file git_add git_checkout git_commit git_stash "
        "stop_job write_file",
        "high": "delete_file generate_image git_pull git_push move_file remove_background run_shell "
        "run_tests send_keys web_fetch web_search write_job",
    }
    found = {risk: [tool.name for tool in BUILTIN_TOOLS if tool.risk == risk] for risk in table}
    for risk, names in found.items():
        new, gone = sorted({*names} - {*table[risk].split()}), sorted({*table[risk].split()} - {*names})
        assert not new, f"add to the row {risk!r} of this table, if this risk is right: {new}"
        assert not gone, f"remove from the row {risk!r} of this table: {gone}"
