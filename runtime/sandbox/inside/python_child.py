"""The process that runs a program in full mode, with CPython, inside the walls of bubblewrap (runtime.sandbox.full).

Runner and program share one process, so everything said from here is only the program's word, however it was made: it
can end early, give any result, raise any error. The walls and the limits do not depend on it. The mark on each message
keeps a program from confusing the line by accident or with a plain write.
"""

from __future__ import annotations

import ast
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

from runtime.sandbox.inside.channel import Channel
from runtime.sandbox.inside.limits import forbid
from runtime.sandbox.inside.plain import NotPlainError, plain

NAME = "program.py"
BUILT_IN_ERRORS = {"TypeError": TypeError, "RuntimeError": RuntimeError, "PermissionError": PermissionError}


def main(descriptor: str, options: str) -> None:
    """Run one program and say how it ended."""
    given = json.loads(options)
    forbid(given["address_space"], given["cpu_seconds"], given["file_bytes"])
    channel = Channel(int(descriptor))
    channel.say("ready")
    order = channel.hear()
    channel.mark(order["mark"])
    sys.setrecursionlimit(order["recursion_depth"])
    _run(channel, order)
    channel.hear()


def _run(channel: Channel, order: dict[str, Any]) -> None:
    names = {"__name__": "__main__", "__builtins__": __builtins__, **order["inputs"]}
    names |= {name: _calling(channel, name, order["output_bytes"]) for name in order["functions"]}
    try:
        result = _value(order["code"], names)
        said: dict[str, Any] = {"say": "done", "result": _plain("the result is ", result, order["output_bytes"])}
    except NotPlainError as error:
        said = {"say": "broke", "how": "refused", "message": str(error)}
    except SyntaxError as error:
        said = {"say": "broke", "how": "syntax", "message": str(error), "line": error.lineno}
    except MemoryError as error:
        said = {"say": "broke", "how": "memory", "message": f"MemoryError: {error}", "line": _line(error)}
    except RecursionError as error:
        said = {"say": "broke", "how": "recursion", "message": f"RecursionError: {error}", "line": _line(error)}
    except BaseException as error:
        said = {"say": "broke", "how": "raised", "message": _described(error), "line": _line(error)}
    _flush()
    channel.say(**said)


def _value(code: str, names: dict[str, Any]) -> Any:
    """Run `code`; the value of its last statement if that is an expression."""
    tree = ast.parse(code, NAME)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, NAME, "exec"), names)  # noqa: S102 - this is the place where programs run, inside the walls
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), NAME, "eval"), names)  # noqa: S307 - as above


def _calling(channel: Channel, name: str, max_bytes: int) -> Callable[..., Any]:
    """The host function `name` as the program sees it."""

    def function(*args: Any, **kwargs: Any) -> Any:
        given = _plain(f"an argument of {name}() is ", [list(args), kwargs], max_bytes)
        channel.say("called", name=name, args=given[0], kwargs=given[1])
        answer = channel.hear()
        if answer["do"] == "raise":
            raise BUILT_IN_ERRORS[answer["type"]](answer["message"])
        return answer["value"]

    function.__name__ = function.__qualname__ = name
    return function


def _plain(what: str, value: Any, max_bytes: int) -> Any:
    try:
        return plain(value, max_bytes)
    except NotPlainError as error:
        raise NotPlainError(f"{what}{error}") from None


def _described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:2000]
    except Exception as another:  # the program's own __str__ broke
        return f"{type(error).__name__}, whose text cannot be made: {type(another).__name__}"


def _line(error: BaseException) -> int | None:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == NAME]
    return lines[-1] if lines else None


def _flush() -> None:
    """What was printed goes out before the end is told; a program may have closed or replaced its output."""
    try:
        sys.stdout.flush()
    except Exception as error:
        sys.stdout = sys.__stdout__
        print(f"(the output was broken: {type(error).__name__})", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
