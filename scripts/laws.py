"""The laws of this code base that no ready-made tool checks, each a function from one Python file to its offences.

tests/test_layout.py runs them over the whole checkout and shows that each one catches what it is made for. Every
message says what to do instead. A law's exceptions stand here by name with their reason, and nowhere else.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

# Files that a law does not hold for, because they are the one place where the thing is done.
ONE_PLACE = {
    "clock_only": {
        "store/clock.py": "time, ids and randomness come from here",
        "monikers/copilot/clock.py": "the copilot library's own, for it imports no store",
    },
    "filters_only": {"store/filters.py": "filters are built here"},
    "no_sleep": {"tests/support.py": "waits for a condition until a deadline here"},
    "nothing_unsafe": {"runtime/sandbox/inside/python_child.py": "runs the program, inside bubblewrap's walls"},
    "no_fakes": {"runtime/testing.py": "the fakes are made here"},
    "one_door_out": {
        "runtime/tools/fetch/fetcher.py": "every request to somebody else's server is judged here",
        "runtime/tools/fetch/pinned.py": "a client for libraries: one origin that the operator named, judged each time",
        "runtime/llm/failures.py": "names the errors of the model client's transport",
        "runtime/llm/openai_chat.py": "tells the errors of the model client's transport apart",
    },
}

# Libraries that a file may import inside a function, with the reason.
HIDDEN_IMPORTS = {
    ("web/bridge.py", "eventlet"): "importing it warns, and serving with threads needs none of it",
    ("runtime/tracing/otlp.py", "opentelemetry"): "an extra: whoever exports no traces need not have it",
    ("web/listener.py", "eventlet"): "importing it warns, and serving with threads needs none of it",
    (
        "runtime/llm/factory.py",
        "runtime",
    ): "the client of endpoints takes a second to load, which a process that asks none need not pay",
    (
        "runtime/llm/direct.py",
        "runtime",
    ): "as in factory.py; the copilot engine, a library, is imported by hosts that bring models of their own",
    (
        "runtime/tools/mcp/opening.py",
        "runtime",
    ): "the MCP library is 25 MB, which few workers need",
}

# Libraries that speak HTTP to others, and the folder that may use one for its own purpose.
HTTP_CLIENTS = {
    "aiohttp": None,
    "http.client": None,
    "httpcore": None,
    "httpcore2": None,
    "httpx": None,
    "httpx2": None,
    "mcp": "runtime/tools/mcp/",  # the operator's servers, with the client of runtime/tools/fetch/pinned.py
    "mcp.client.streamable_http": "runtime/tools/mcp/http.py",  # so that nobody else opens it without that client
    "mcp.client.sse": None,
    "mcp.client.auth": None,  # signs in by a browser, at addresses that a server names (S49)
    "openai": "runtime/llm/",  # the operator's model endpoints, which no model chooses
    "requests": None,
    "urllib.request": None,
    "urllib3": None,
}

CLOCK_CALLS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}
CLOCK_MODULES = {"random", "uuid"}
UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
UNSAFE_CALLS = {"eval", "exec", "__import__", "yaml.load", "yaml.unsafe_load", "Markup", "markupsafe.Markup"}
FILTER_CALLS = {"where", "delete", "count_rows"}
FILTER_KEYWORDS = {"where", "filter", "updates_sql"}
SLEEPS = {"sleep", "wait_for_timeout"}
MUTABLE_CALLS = {"list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter"}
BROAD = {"Exception", "BaseException"}

Found = Iterator[tuple[int, str]]


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the root of the checkout, and its parsed text."""

    path: str
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, path: str, text: str) -> Source:
        return cls(path, text, ast.parse(text, path))

    @classmethod
    def read(cls, root: Path, file: Path) -> Source:
        return cls.parse(file.relative_to(root).as_posix(), file.read_text())

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree: walking it takes as long as parsing, and each law looks at all of it."""
        return tuple(ast.walk(self.tree))


Law = Callable[[Source], Found]


def offences(law: Law, source: Source) -> list[str]:
    """What `law` finds in a file, as `file:line: message`; nothing in a file that is its one place."""
    if source.path in ONE_PLACE.get(law.__name__, {}):
        return []
    return [f"{source.path}:{line}: {message}" for line, message in law(source)]


# --- the laws --------------------------------------------------------------------------------------------------------


def explained(source: Source) -> Found:
    """Every module says its one job first and has postponed annotations; an empty file needs neither."""
    if not source.text.strip():
        return
    if not ast.get_docstring(source.tree):
        yield 1, "no docstring: say the file's one job in its first line"
    futures = [node for node in source.tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    if not futures and len(source.tree.body) > 1:
        yield 1, "put `from __future__ import annotations` under the docstring"


def no_global(source: Source) -> Found:
    """No state hides in a module."""
    for node in source.nodes:
        if isinstance(node, ast.Global):
            yield node.lineno, f"`global {', '.join(node.names)}`: keep it in an object that is passed along"


def no_silent_except(source: Source) -> Found:
    """Whoever catches everything does something about it."""
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield node.lineno, "bare `except:` catches even the wish to stop; name the error"
        elif isinstance(node, ast.ExceptHandler) and _is_broad(node.type) and all(map(_does_nothing, node.body)):
            yield (
                node.lineno,
                "a broad except that hides the error: name it, or log it and say what happens next",
            )
        elif isinstance(node, ast.Call) and _name(node.func).endswith("suppress") and any(map(_is_broad, node.args)):
            yield node.lineno, "suppressing every error hides it: name the error"


def imports_on_top(source: Source) -> Found:
    """An import inside a function hides a boundary that is wrong."""
    for function in _functions(source.nodes):
        for line, module in _imports(ast.walk(function)):
            if (source.path, module.partition(".")[0]) not in HIDDEN_IMPORTS:
                yield line, f"`{module}` is imported inside a function: import it at the top of the file"


def no_mutable_default(source: Source) -> Found:
    """A default value is shared by all calls."""
    for function in _functions(source.nodes):
        arguments = function.args
        for default in [*arguments.defaults, *(value for value in arguments.kw_defaults if value)]:
            if _is_mutable(default):
                yield default.lineno, "a mutable default is shared by all calls: use None, () or a factory"


def filters_only(source: Source) -> Found:
    """No text that was put together reaches the database."""
    built = {name for node in source.nodes for name in _names_of_built_text(node)}
    for node in source.nodes:
        if isinstance(node, ast.Call) and any(_has_built_text(argument, built) for argument in _filters_of(node)):
            yield node.lineno, "a filter put together from text: build it with store/filters.py, which quotes values"


def nothing_unsafe(source: Source) -> Found:
    """No text or bytes become code or markup."""
    for line, module in _imports(source.nodes):
        if module.partition(".")[0] in UNSAFE_MODULES:
            yield line, f"`{module}` runs code that is hidden in data: use JSON"
    for node in source.nodes:
        if isinstance(node, ast.Call) and _name(node.func) in UNSAFE_CALLS:
            yield node.lineno, f"`{_name(node.func)}` trusts its text: parse it, or let the template escape it"


def clock_only(source: Source) -> Found:
    """Time, ids and randomness are given to us, so that a test can give others."""
    cure = "take it from a Clock, Ids or Chance (store/clock.py) that is passed in"
    for line, module in _imports(source.nodes):
        if module.partition(".")[0] in CLOCK_MODULES:
            yield line, f"`{module}` makes tests uncertain: {cure}"
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield node.lineno, f"`from time import ...` hides where time comes from: {cure}"
        if isinstance(node, ast.Attribute):
            owner = _name(node.value).rpartition(".")[2]
            if node.attr in CLOCK_CALLS.get(owner, ()):
                yield node.lineno, f"`{owner}.{node.attr}`: {cure}"


def no_fakes(source: Source) -> Found:
    """The fakes that ship for tests stay out of the product."""
    for line, module in _imports(source.nodes):
        if module in {"runtime.testing", "store.testing"}:
            yield line, f"{module} is for tests: take the real thing as an argument"


def one_door_out(source: Source) -> Found:
    """Whoever asks a server that a model or a page named asks through the one place that judges it."""
    for line, module in _imports(source.nodes):
        for client, folder in HTTP_CLIENTS.items():
            if f"{module}.".startswith(f"{client}.") and not (folder and source.path.startswith(folder)):
                yield line, f"`{module}` can be led into the operator's network: use runtime/tools/fetch"


def no_sleep(source: Source) -> Found:
    """A test waits for what it needs, not for a time. `asyncio.sleep(0)`, one turn of the loop, is no wait."""
    cure = "wait for the condition with the helper in tests/support.py, or move a fake clock"
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and any(alias.name in SLEEPS for alias in node.names):
            yield node.lineno, f"a sleep is imported: {cure}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SLEEPS:
            if _name(node.func.value) in {"clock", "self"} or _is_zero(node.args):
                continue
            yield node.lineno, f"a test that sleeps: {cure}"


TESTS: tuple[Law, ...] = (no_global, no_silent_except, imports_on_top, no_mutable_default, nothing_unsafe, no_sleep)
SCRIPTS: tuple[Law, ...] = (explained, no_global, no_silent_except, imports_on_top, no_mutable_default, nothing_unsafe)
PRODUCT: tuple[Law, ...] = (*SCRIPTS, filters_only, clock_only, no_fakes, one_door_out)


# --- reading a syntax tree -------------------------------------------------------------------------------------------

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _functions(nodes: Iterable[ast.AST]) -> Iterator[Function]:
    return (node for node in nodes if isinstance(node, Function))


def _imports(nodes: Iterable[ast.AST]) -> Found:
    """The line and the module of every import; `from a import b` names `a` and, in case it is one, `a.b`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _name(node: ast.AST) -> str:
    """A dotted name as text; what stands before a call or an index is left out."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}".lstrip(".")
    return ""


def _is_broad(node: ast.AST | None) -> bool:
    kinds = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(kind is not None and _name(kind) in BROAD for kind in kinds)


def _does_nothing(node: ast.stmt) -> bool:
    if isinstance(node, ast.Return):
        return node.value is None or isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Pass | ast.Continue | ast.Break) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def _is_mutable(node: ast.expr) -> bool:
    literals = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    return isinstance(node, literals) or (isinstance(node, ast.Call) and _name(node.func) in MUTABLE_CALLS)


def _is_zero(arguments: list[ast.expr]) -> bool:
    return len(arguments) == 1 and isinstance(arguments[0], ast.Constant) and arguments[0].value == 0


def _filters_of(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that the database would read as a filter."""
    if not isinstance(call.func, ast.Attribute):
        return []
    named = [keyword.value for keyword in call.keywords if keyword.arg in FILTER_KEYWORDS]
    return [*call.args, *named] if call.func.attr in FILTER_CALLS else named


def _has_built_text(node: ast.AST, built: set[str]) -> bool:
    return any(_is_built_text(part) or (isinstance(part, ast.Name) and part.id in built) for part in ast.walk(node))


def _is_built_text(node: ast.AST) -> bool:
    """Text put together: an f-string, `"..." % x`, `"..." + x`, or `"...".format(x)`."""
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        return any(_is_text(side) for side in (node.left, node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in {"format", "join"} and _is_text(node.func.value)
    return False


def _is_text(node: ast.AST) -> bool:
    return _is_built_text(node) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _names_of_built_text(node: ast.AST) -> list[str]:
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None or not _is_built_text(node.value):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]
