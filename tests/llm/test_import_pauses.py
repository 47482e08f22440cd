"""An import that stops between its modules: each of them, in its own thread alone, and only for its time."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.llm.import_pauses import pauses


@pytest.fixture
def package(tmp_path: Path) -> Iterator[str]:
    """A package of three modules that import each other."""
    folder = tmp_path / "paused_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("from paused_package import first\n")
    (folder / "first.py").write_text("from paused_package import second\n")
    (folder / "second.py").write_text("")
    sys.path.insert(0, str(tmp_path))
    importlib.invalidate_caches()
    yield "paused_package"
    sys.path.remove(str(tmp_path))


def forget(package: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def test_there_is_a_pause_before_each_module_and_none_afterwards(package: str) -> None:
    paused: list[set[str]] = []
    with pauses(lambda: paused.append({name for name in sys.modules if name.startswith(package)})):
        importlib.import_module(package)
    assert paused == [set(), {package}, {package, f"{package}.first"}]
    forget(package)
    importlib.import_module(package)
    forget(package)
    assert len(paused) == 3


def test_other_threads_are_not_paused(package: str) -> None:
    paused: list[str] = []
    with pauses(lambda: paused.append(threading.current_thread().name)):
        other = threading.Thread(target=importlib.import_module, args=(package,), name="other")
        other.start()
        other.join()
    forget(package)
    assert paused == []


def test_an_import_that_fails_leaves_no_pauses_behind() -> None:
    before = list(sys.meta_path)
    with pytest.raises(ModuleNotFoundError), pauses(lambda: None):
        importlib.import_module("paused_nowhere")
    assert sys.meta_path == before
