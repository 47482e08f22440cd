"""The one list of built-in tools, and the selection a model is offered."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import Tool, ToolRegistry
from buddy.tools.ask_user import ask_user
from buddy.tools.definitions import find_definition
from buddy.tools.delegate import delegate
from buddy.tools.files.edit import edit_file
from buddy.tools.files.listing import find_files, list_files
from buddy.tools.files.move import copy_file, delete_file, move_file
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from buddy.tools.git import git_branch, git_diff, git_log, git_show, git_status
from buddy.tools.git_write import git_add, git_checkout, git_commit, git_pull, git_push, git_stash
from buddy.tools.grep import grep
from buddy.tools.jobs import capture_pane, list_jobs, read_job, send_keys, stop_job, write_job
from buddy.tools.pictures import generate_image, remove_background
from buddy.tools.run_tests import run_tests
from buddy.tools.search_tools import search_tools
from buddy.tools.shell import run_shell
from buddy.tools.todo import time, todo
from buddy.tools.variants import retrieve_variant
from buddy.tools.web import web_fetch, web_search

BUILTIN_TOOLS: tuple[Tool, ...] = (
    read_file,
    write_file,
    edit_file,
    apply_patch,
    list_files,
    grep,
    find_files,
    find_definition,
    copy_file,
    move_file,
    delete_file,
    run_shell,
    list_jobs,
    read_job,
    stop_job,
    write_job,
    send_keys,
    capture_pane,
    git_status,
    git_diff,
    git_log,
    git_show,
    git_branch,
    git_add,
    git_commit,
    git_checkout,
    git_stash,
    git_push,
    git_pull,
    run_tests,
    web_fetch,
    web_search,
    generate_image,
    remove_background,
    delegate,
    retrieve_variant,
    ask_user,
    todo,
    time,
    search_tools,
)


PATCHERS = pattern(r"(?:^|/)(?:gpt-5|gpt-6|codex|o3|o4)|codex", re.IGNORECASE)
"""Models trained on the patch format; the others edit by quoting."""


def prefers_patches(model: str) -> bool:
    """Tell whether a model, by the name that is sent or litellm's, was trained on `apply_patch`."""
    return PATCHERS().search(model) is not None


def offered(
    tools: ToolRegistry,
    model: str,
    only: Collection[str] | None = None,
    hides: Callable[[Tool], bool] = lambda _tool: False,
) -> ToolRegistry:
    """Return the tools of a task on this model: of the two ways to edit the one it was trained on. `only`:
    the names chosen for a subagent, None for all. If one of the two ways is switched off, every model gets
    the other."""
    both = all(tools.get(tool.name) is not None for tool in (edit_file, apply_patch))
    other = edit_file if prefers_patches(model) else apply_patch

    def fits(tool: Tool) -> bool:
        if (both and tool.name == other.name) or hides(tool):
            return False
        return only is None or tool.name in only or any(alias in only for alias in tool.aliases)

    return ToolRegistry(filter(fits, tools.list_all()))
