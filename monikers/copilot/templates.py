"""Renders the prompts of agents: Jinja2 in a sandbox, on values that can only be read, with bounds on work and text.

**Invariant: a template costs no one but its own agent.** It changes nothing, reaches no attribute that begins with an
underscore, calls nothing but what is listed here, and ends: what it does is paid for from a budget of its own
(monikers/copilot/templatework.py). What a value says is data: printed into a prompt it stays on one line and has no
brackets (monikers/copilot/marking.py), so a customer's words cannot begin a section of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import BuiltinMethodType, MethodType
from typing import Any, cast

from jinja2 import ChainableUndefined, Template, Undefined
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace, pass_context
from markupsafe import Markup

from monikers.copilot.marking import value_text
from monikers.copilot.readonly import BoardFields, Fields, Items, Question
from monikers.copilot.templatefilters import GROWING_METHODS, Shown, formatted, prompt_filters, prompt_tests, width
from monikers.copilot.templatenodes import bounded, compared, joined, made, sliced, tick
from monikers.copilot.templatework import Work, work, working

MAX_TEMPLATE_CHARS = 40_000
MAX_CACHED = 256
MAX_RANGE = 10_000
MAX_BITS = 4_096
MAX_SHOWN_CHARS = 300


class PromptTemplateError(ValueError):
    """A template cannot be used; says what is wrong with it and, where it is known, in which line."""


def check_template(text: str) -> None:
    """Raise `PromptTemplateError` when `text` is no template that can be rendered."""
    _compiled(text)


def render(text: str, values: Mapping[str, Any]) -> str:
    """The template `text` with `values`, which should be read-only (monikers/copilot/readonly.py).

    A value that is missing is empty, and a comparison with it false. Raises `PromptTemplateError` for whatever goes
    wrong: a template that has mistakes, reaches for what it may not have, or does too much.
    """
    template = _compiled(text)
    try:
        with working(Work()):
            return template.render(values)
    except Exception as error:
        raise PromptTemplateError(f"the template cannot be rendered: {_told(error)}") from error


def _told(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "its macros or loops call themselves without an end"
    number = getattr(error, "lineno", None)
    line = f" (line {number})" if number else ""
    said = str(error)[:MAX_SHOWN_CHARS]
    return f"{said}{line}" if isinstance(error, TemplateError) else f"{type(error).__name__}: {said}{line}"


@lru_cache(maxsize=MAX_CACHED)
def _compiled(text: str) -> Template:
    if len(text) > MAX_TEMPLATE_CHARS:
        raise PromptTemplateError(f"the template has {len(text)} characters: keep it under {MAX_TEMPLATE_CHARS}")
    environment = _environment()
    try:
        return environment.from_string(bounded(environment.parse(text)))
    except (TemplateError, SyntaxError, ValueError, RecursionError, MemoryError, OverflowError, TypeError) as error:
        told = "it is nested too deep" if isinstance(error, RecursionError | MemoryError) else _told(error)
        raise PromptTemplateError(f"the template cannot be read: {told}") from error


@lru_cache(maxsize=1)
def _environment() -> PromptEnvironment:
    return PromptEnvironment()


class Missing(ChainableUndefined):
    """A value that is not there: empty, false, and smaller than nothing."""

    def _nothing(self, *args: Any) -> Missing:
        return self

    def _no(self, other: Any) -> bool:
        return False

    __slots__ = ()
    __neg__ = __pos__ = _nothing  # type: ignore[assignment]
    __lt__ = __le__ = __gt__ = __ge__ = _no  # type: ignore[assignment]


@pass_context
def _finalize(context: Context, value: Any) -> Any:
    """What is printed for a value. Text of the template's own macros has been through here already."""
    if isinstance(value, Markup | Shown):
        work().write(len(value))
        return value
    if isinstance(value, Undefined) or not isinstance(value, _SHOWN):
        return Shown("")
    work().weigh(value)
    text = value_text(list(value) if isinstance(value, range) else value)
    work().write(len(text))
    return Shown(text)


_SHOWN = (str, bool, int, float, Fields, Items, list, tuple, dict, range)


def _range(*args: int) -> range:
    found = range(*args)
    if len(found) > MAX_RANGE:
        raise SecurityError(f"a range of {len(found)} numbers in a template: at most {MAX_RANGE}")
    return found


_TEXT_METHODS = frozenset(
    "capitalize casefold count endswith find index isalnum isalpha isdecimal isdigit islower isspace istitle isupper "
    "lower lstrip partition removeprefix removesuffix rfind rindex rpartition rsplit rstrip split splitlines "
    "startswith strip swapcase title upper".split()
)
_OBJECT_METHODS = frozenset({"get", "items", "keys", "values"})
_LIST_METHODS = frozenset({"count", "index"})
_LOOP_NAMES = frozenset(
    "index index0 revindex revindex0 first last length depth depth0 previtem nextitem cycle changed".split()
)
#: what may be read from an object of a template, by its kind
_ATTRIBUTES: tuple[tuple[type, frozenset[str]], ...] = (
    (Markup, frozenset()),
    (str, _TEXT_METHODS),
    (Fields, _OBJECT_METHODS),
    (dict, _OBJECT_METHODS),
    (list, _LIST_METHODS),
    (tuple, frozenset({*_LIST_METHODS, "grouper", "list"})),
    (Items, _LIST_METHODS),
    (LoopContext, _LOOP_NAMES),
    (Cycler, frozenset({"next", "reset", "current"})),
)
_CALLED_KINDS = (Macro, LoopContext, Cycler, Joiner, Question)
_OURS: frozenset[Callable[..., Any]] = frozenset({tick, made, joined, compared, sliced})


class PromptEnvironment(ImmutableSandboxedEnvironment):
    """Jinja2 for prompts: everything that is not named here is refused."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self) -> None:
        super().__init__(autoescape=True, finalize=_finalize, undefined=Missing, keep_trailing_newline=True)
        self.filters = cast(Any, prompt_filters())
        self.tests = cast(Any, prompt_tests())
        self.globals = {"range": _range, "namespace": Namespace, "cycler": Cycler, "joiner": Joiner}

    def getattr(self, obj: Any, attribute: str) -> Any:
        """`obj.attribute`: a key of an object comes first, then what its kind may be asked for."""
        work().spend(1)
        if attribute.startswith("_"):
            raise SecurityError(f"the attribute {attribute[:40]!r} begins with an underscore and is not for templates")
        if isinstance(obj, Undefined):
            return obj
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        if isinstance(obj, BoardFields) and attribute in BoardFields.QUESTIONS:
            return obj.question(attribute)
        if isinstance(obj, str) and attribute in GROWING_METHODS:
            return Question(partial(GROWING_METHODS[attribute], obj))
        if isinstance(obj, Namespace) or attribute in _attributes_of(obj):
            return getattr(obj, attribute, self.undefined(obj=obj, name=attribute))
        return self.undefined(obj=obj, name=attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """`obj[argument]`; a name that is no key is read as an attribute."""
        work().spend(1)
        if isinstance(obj, Undefined):
            return obj
        if isinstance(obj, Mapping | str | list | tuple | Items | range):
            if not isinstance(argument, str | int):
                work().weigh(argument)  # it is hashed whole
            try:
                found = obj[argument]
            except (LookupError, TypeError):
                found = None if not isinstance(argument, str) else self.getattr(obj, argument)
                return self.undefined(obj=obj, name=str(argument)[:40]) if found is None else found
            return found
        return self.getattr(obj, argument) if isinstance(argument, str) else self.undefined(obj=obj, name="item")

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """`obj(...)`: what a rewritten template calls, then what is listed; nothing else."""
        if isinstance(__obj, Callable) and __obj.__hash__ is not None and __obj in _OURS:  # type: ignore[arg-type]
            return __obj(*args)
        work().spend(2)
        if isinstance(__obj, Undefined):
            named = str(__obj._undefined_name)[:40]
            raise SecurityError(f"a template calls {named!r}, which is not there or not for templates")
        if not _may_be_called(__obj, __self.globals):
            raise SecurityError(f"a template calls a {type(__obj).__name__}, which is not for templates")
        _pay_for_call(__obj, (*args, *kwargs.values()))
        result = __context.call(__obj, *args, **kwargs)
        if isinstance(result, Markup):
            return result
        work().hold(result)
        return list(result) if isinstance(__obj, MethodType | BuiltinMethodType) and not _is_value(result) else result

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic, within bounds."""
        work().spend(1)
        if isinstance(left, Undefined) or isinstance(right, Undefined):
            return _beside_nothing(operator, left, right)
        if isinstance(left, str) and operator == "%":
            return formatted(str(left), right)
        if isinstance(left, int | float) and isinstance(right, int | float):
            _check_size(operator, left, right)
            return self.binop_table[operator](left, right)
        return self._longer(operator, left, right)

    def _longer(self, operator: str, left: Any, right: Any) -> Any:
        """Texts and lists, joined or repeated."""
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            return joined(left, right)
        if operator == "+" and isinstance(left, list | tuple | Items) and isinstance(right, list | tuple | Items):
            return made([*left, *right])
        if operator == "*" and isinstance(left, int):
            left, right = right, left
        if operator == "*" and isinstance(right, int):
            return _repeated(left, right)
        said = (
            f"{operator!r} between a {type(left).__name__} and a {type(right).__name__} in a template: use ~ for texts"
        )
        raise SecurityError(said)


def _attributes_of(obj: Any) -> frozenset[str]:
    return next((names for kind, names in _ATTRIBUTES if isinstance(obj, kind)), frozenset())


def _may_be_called(obj: Any, known: Mapping[str, Any]) -> bool:
    if isinstance(obj, _CALLED_KINDS):
        return True
    if isinstance(obj, MethodType | BuiltinMethodType):
        return obj.__name__ in _attributes_of(obj.__self__)
    return any(obj is one for one in known.values())


def _pay_for_call(called: Any, given: tuple[Any, ...]) -> None:
    """What a method looks at: a text's all of it, a search all of the list and of what is sought."""
    owner = getattr(called, "__self__", None) if isinstance(called, MethodType | BuiltinMethodType) else None
    deep = isinstance(owner, list | tuple | Items | LoopContext)
    for value in given:
        if deep:
            work().weigh(value)
        else:
            work().hold(value)
        if isinstance(owner, str) and isinstance(value, str) and called.__name__ in _STRIPPING:
            width(len(value), "a set of characters")
    if isinstance(owner, str | list | tuple | Items):
        work().weigh(owner)


_STRIPPING = frozenset({"strip", "lstrip", "rstrip"})


def _is_value(result: Any) -> bool:
    return result is None or isinstance(
        result, str | bool | int | float | list | tuple | dict | Fields | Items | Undefined
    )


def _beside_nothing(operator: str, left: Any, right: Any) -> Any:
    """A sum with a value that is not there is the other value; anything else is not there either."""
    if operator != "+":
        return left if isinstance(left, Undefined) else right
    return right if isinstance(left, Undefined) else left


def _check_size(operator: str, left: float, right: float) -> None:
    if not isinstance(left, int) or not isinstance(right, int):
        return
    bits = left.bit_length() + right.bit_length()
    if operator == "**":
        bits = left.bit_length() * max(0, right)
    if operator in ("*", "**", "+", "-") and bits > MAX_BITS:
        raise SecurityError(f"a number of more than {MAX_BITS} bits in a template: use smaller ones")


def _repeated(value: Any, times: int) -> Any:
    if isinstance(value, str):
        work().write(len(value) * max(0, times))
        return str(value) * times
    if isinstance(value, list | tuple | Items):
        work().spend(len(value) * max(0, times))
        return made(list(value) * times)
    raise SecurityError(f"a {type(value).__name__} times {times} in a template: only texts and lists are repeated")
