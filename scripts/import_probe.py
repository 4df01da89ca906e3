"""Import every module of the product and report, as JSON, what importing did besides defining things.

`python -m scripts.import_probe store.clock runtime.runner ...` imports the other libraries first, since they may do as
they like, and then watches: files opened or made outside Python's own folders, programs started, connections, threads.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OURS = {"store", "runtime", "monikers", "web", "agents", "app"}
WATCHED = {
    *("open", "os.mkdir", "os.remove", "os.rename", "os.putenv", "sqlite3.connect"),
    *("os.fork", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect", "socket.bind"),
}
CODE = (".py", ".pyc", ".so", ".pyi")


def main(modules: list[str]) -> None:
    """Import `modules`, one after another, and print {module: [deeds]} for those that did anything."""
    for library in sorted({name for module in modules for name in foreign_imports(module)}):
        with contextlib.suppress(ImportError):  # an optional library; our module says what happens without it
            importlib.import_module(library)
    watch = Watch()
    sys.addaudithook(watch.hear)
    deeds = {module: watch.importing(module) for module in modules}
    print(json.dumps({module: done for module, done in deeds.items() if done}))


class Watch:
    """Collects what happens while a module is being imported."""

    def __init__(self) -> None:
        self._deeds: list[str] | None = None

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called by the interpreter at each audited event; cannot be taken away again."""
        if self._deeds is not None and event in WATCHED and not self._is_loading_code(event, arguments):
            self._deeds.append(f"{event} {arguments[0]!r}")

    def importing(self, module: str) -> list[str]:
        """What importing `module` did."""
        before, words, deeds = set(threading.enumerate()), io.StringIO(), list[str]()
        self._deeds = deeds
        with contextlib.redirect_stdout(words), contextlib.redirect_stderr(words):
            importlib.import_module(module)
        self._deeds = None
        deeds += [f"started the thread {thread.name!r}" for thread in set(threading.enumerate()) - before]
        return [*deeds, f"printed {words.getvalue()!r}"] if words.getvalue() else deeds

    def _is_loading_code(self, event: str, arguments: tuple[Any, ...]) -> bool:
        path = str(arguments[0])
        own = (sys.prefix, sys.base_prefix)
        return "__pycache__" in path or (event == "open" and (path.endswith(CODE) or path.startswith(own)))


def foreign_imports(module: str) -> set[str]:
    """The modules of other libraries that a module of ours names."""
    nodes = list(ast.walk(ast.parse(file_of(module).read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name for name in plain | named if name.partition(".")[0] not in OURS}


def file_of(module: str) -> Path:
    """The file that a module of ours is read from."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


if __name__ == "__main__":
    main(sys.argv[1:])
