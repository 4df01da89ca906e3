"""Rewrites a parsed template so that all that repeats or grows in it pays for its work (templatework.py).

Jinja's sandbox asks the environment about attributes, calls and arithmetic. It does not ask about turns of a loop,
comparisons, joining with `~`, or lists that are written down: these become calls here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from jinja2 import Undefined, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.visitor import NodeTransformer

from monikers.copilot.marking import value_text
from monikers.copilot.readonly import Items
from monikers.copilot.templatework import work

MAX_TEMPLATE_NODES = 2_000
#: parts of a template for the price of one step
NODES_A_STEP = 4

#: what has no place in a prompt: it would load other templates, or switch the marking off
_REFUSED = (
    nodes.Extends,
    nodes.Include,
    nodes.Import,
    nodes.FromImport,
    nodes.Block,
    nodes.EvalContextModifier,
)
_WORDS = {
    nodes.Extends: "extends",
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from",
    nodes.Block: "block",
}


def bounded(tree: nodes.Template) -> nodes.Template:
    """The template with its work paid for. Raises `TemplateSyntaxError` for what a prompt may not hold."""
    for count, node in enumerate(tree.find_all(nodes.Node)):
        if isinstance(node, _REFUSED):
            word = _WORDS.get(type(node), "autoescape")
            raise TemplateSyntaxError(f"{word!r} cannot be used in a prompt: write the text itself", node.lineno)
        if count > MAX_TEMPLATE_NODES:
            said = f"the template has more than {MAX_TEMPLATE_NODES} parts: make it shorter"
            raise TemplateSyntaxError(said, node.lineno)
    found: nodes.Template = _Payer().visit(tree)
    return found


class _Payer(NodeTransformer):
    """Puts a payment before each turn of a loop, each body of a macro and each piece of the template's own text."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        price = _price(node)
        self.generic_visit(node)
        node.body.insert(0, _statement(node, price, 0))
        if node.test is not None:
            node.test = nodes.And(_call(node, tick, price, 0), node.test, lineno=node.lineno)
        return _placed(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return self._body(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        return self._body(node)

    def _body(self, node: nodes.Macro | nodes.CallBlock) -> nodes.Node:
        price = _price(node)
        self.generic_visit(node)
        node.body.insert(0, _statement(node, price, 0))
        return _placed(node)

    def visit_Output(self, node: nodes.Output) -> Any:
        self.generic_visit(node)
        chars = sum(len(part.data) for part in node.nodes if isinstance(part, nodes.TemplateData))
        return [_statement(node, 1, chars), node] if chars else node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        asked: list[Any] = [node.expr]
        for operand in node.ops:
            asked += [operand.op, operand.expr]
        return _call(node, compared, *asked)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _call(node, joined, *node.nodes)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        ends = [end or nodes.Const(None) for end in (node.arg.start, node.arg.stop, node.arg.step)]
        return _call(node, sliced, node.node, *ends)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return _call(node, made, node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return _call(node, made, node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return _call(node, made, node) if node.ctx == "load" else node


def _price(node: nodes.Node) -> int:
    return 1 + sum(1 for _ in node.find_all(nodes.Node)) // NODES_A_STEP


def _call(at: nodes.Node, function: Callable[..., Any], *args: Any) -> nodes.Call:
    said = [arg if isinstance(arg, nodes.Node) else nodes.Const(arg) for arg in args]
    name = nodes.ImportedName(f"{__name__}.{function.__name__}")
    call = nodes.Call(name, said, [], None, None)
    return call.set_lineno(at.lineno).set_environment(at.environment)  # type: ignore[return-value,arg-type]


def _statement(at: nodes.Node, steps: int, chars: int) -> nodes.Node:
    return _placed(nodes.ExprStmt(_call(at, tick, steps, chars), lineno=at.lineno), at)


def _placed(node: nodes.Node, at: nodes.Node | None = None) -> nodes.Node:
    """The node with the environment of its neighbours, which Jinja asks for."""
    return node.set_environment((at or node).environment)  # type: ignore[arg-type]


# --- what a rewritten template calls ---------------------------------------------------------------------------------


def tick(steps: int, chars: int) -> bool:
    """Pay; true, so that it can stand before a condition."""
    budget = work()
    budget.spend(steps)
    budget.write(chars)
    return True


def made(value: Any) -> Any:
    """A list, a tuple or an object that the template wrote down."""
    work().hold(value)
    return value


def joined(*values: Any) -> str:
    """The texts of some values, one after another."""
    texts = [text_of(value) for value in values]
    work().write(sum(map(len, texts)))
    return "".join(texts)


def compared(first: Any, *rest: Any) -> bool:
    """A chain of comparisons, as Python reads it; one that cannot be made is false."""
    left = first
    work().weigh(left)
    for name, right in zip(rest[::2], rest[1::2], strict=True):
        work().weigh(right)
        if not _compare(_OPERATORS[name], left, right):
            return False
        left = right
    return True


def sliced(value: Any, start: Any, stop: Any, step: Any) -> Any:
    """A part of a text or a list; nothing of anything else."""
    if not isinstance(value, str | list | tuple | Items | range):
        return ""
    found = value[slice(*(end if isinstance(end, int) else None for end in (start, stop, step)))]
    work().hold(found)
    return found


def _compare(compare: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
    try:
        return bool(compare(left, right))
    except TypeError:
        return False


def text_of(value: Any) -> str:
    """The text of a value, as filters and `~` take it: a text as it is, anything else as a prompt shows it."""
    if isinstance(value, str):
        return value
    if isinstance(value, Undefined):
        return ""
    work().weigh(value)
    return value_text(value)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda one, many: one in many,
    "notin": lambda one, many: one not in many,
}
