"""The one list of built-in tools."""

from __future__ import annotations

from buddy.agent.tool import Tool
from buddy.tools.ask_user import ask_user
from buddy.tools.definitions import find_definition
from buddy.tools.delegate import delegate
from buddy.tools.edit import edit_file
from buddy.tools.file_moves import copy_file, delete_file, move_file
from buddy.tools.find import find_files
from buddy.tools.git import git_branch, git_diff, git_log, git_show, git_status
from buddy.tools.git_changes import git_add, git_checkout, git_commit, git_pull, git_push, git_stash
from buddy.tools.jobs import capture_pane, list_jobs, read_job, send_keys, stop_job, write_job
from buddy.tools.listing import list_files
from buddy.tools.patch import apply_patch
from buddy.tools.plan import time, todo
from buddy.tools.read import read_file
from buddy.tools.run_tests import run_tests
from buddy.tools.search import grep
from buddy.tools.shell import run_shell
from buddy.tools.web import web_fetch, web_search
from buddy.tools.write import write_file

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
    delegate,
    ask_user,
    todo,
    time,
)
