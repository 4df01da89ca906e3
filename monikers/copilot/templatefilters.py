"""The filters and tests of a prompt's templates: Jinja's own where they only look, ours where a text could grow.

Each pays for what it is given before it begins and for what it gives back.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import pairwise
from types import GeneratorType
from typing import Any, cast

from jinja2 import Undefined
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS
from jinja2.tests import TESTS

from monikers.copilot.marking import json_text
from monikers.copilot.templatenodes import compared, text_of
from monikers.copilot.templatework import CHARS_A_STEP, work

MAX_WIDTH = 1_000
MAX_DIGITS = 20
Filter = Callable[..., Any]

_CONVERSION = re.compile(r"%(?:\((?P<name>[^)]*)\))?[#0\- +]*(?P<width>\*|\d*)(?:\.(?P<digits>\*|\d*))?[hlL]?[a-zA-Z%]")


def width(value: Any, name: str) -> int:
    """A width, a count or a number of digits that a template asks for. Raises `SecurityError` beyond `MAX_WIDTH`."""
    if not isinstance(value, int) or not 0 <= value <= MAX_WIDTH:
        raise SecurityError(f"{name} of {str(value)[:20]} in a template: at most {MAX_WIDTH} can be asked for")
    return value


def _made(text: str) -> str:
    work().write(len(text))
    return text


def _center(value: Any, columns: int = 80) -> str:
    return text_of(value).center(width(columns, "a width"))


def _indent(value: Any, columns: int = 4, first: bool = False, blank: bool = False) -> str:
    text, by = text_of(value), " " * width(columns, "an indentation")
    lines = text.splitlines()
    work().write(len(lines) * len(by))
    indented = [by + line if (blank or line) and (first or place) else line for place, line in enumerate(lines)]
    return "\n".join(indented)


def _replace(value: Any, old: Any, new: Any, count: int = -1) -> str:
    text, before, after = text_of(value), text_of(old), text_of(new)
    places = len(text) + 1 if not before else text.count(before)
    work().write(len(text) + min(places, places if count < 0 else count) * len(after))
    return text.replace(before, after, count)


def _join(value: Any, by: Any = "", attribute: Any = None) -> str:
    parts = [text_of(_attribute(item, attribute)) for item in _items(value)]
    between = text_of(by)
    work().write(sum(map(len, parts)) + len(between) * len(parts))
    return between.join(parts)


def _attribute(item: Any, name: Any) -> Any:
    if name is None:
        return item
    for part in str(name).split("."):
        item = item.get(part, "") if isinstance(item, Mapping) else ""
    return item


def _wordwrap(value: Any, columns: int = 79, *more: Any, **named: Any) -> str:
    text, wide = text_of(value), max(1, width(columns, "a width"))
    # a word that is longer than the line is cut again and again
    work().spend(len(text) * len(text) // (wide * CHARS_A_STEP) + len(text) // 8)
    lines = text.splitlines()
    return _made("\n".join("\n".join(textwrap.wrap(line, wide)) for line in lines))


def _truncate(value: Any, length: int = 255, killwords: bool = False, end: str = "...", leeway: int = 0) -> str:
    text, last = text_of(value), text_of(end)
    if len(text) <= length + leeway:
        return text
    cut = text[: max(0, length - len(last))]
    return _made((cut if killwords else cut.rsplit(" ", 1)[0]) + last)


def _format(value: Any, *args: Any, **named: Any) -> str:
    return formatted(text_of(value), named or args)


def formatted(text: str, values: Any) -> str:
    """`text % values` with widths and texts within bounds."""
    for found in _CONVERSION.finditer(text):
        for size in filter(None, (found["width"], found["digits"])):
            width(int(size) if size.isdecimal() and len(size) < MAX_DIGITS else size, "a width")
    if isinstance(values, Mapping):
        asked = {found["name"] for found in _CONVERSION.finditer(text)} - {None}
        given: Any = {name: _argument(values[name]) for name in asked if name in values}
        longest = max(map(_length, given.values()), default=0)
    else:
        given = tuple(map(_argument, values if isinstance(values, tuple) else (values,)))
        longest = max(map(_length, given), default=0)
    work().spend(len(given))
    work().write(len(text) + (longest + 2 * MAX_WIDTH) * sum(1 for _ in _CONVERSION.finditer(text)) // CHARS_A_STEP)
    work().write(longest * text.count("%"))
    return _made(text % given)


def _argument(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else text_of(value)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else 0


class Shown(str):
    """Text that is ready for the prompt; Jinja's escaping leaves it alone."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def _refused_format(value: Any, *args: Any, **named: Any) -> str:
    raise SecurityError("a template calls format, whose fields reach into objects: use ~ or the filter format")


def _tojson(value: Any, indent: int | None = None) -> str:
    work().weigh(value)
    deep = None if indent is None else min(width(indent, "an indentation"), 8)
    return Shown(_made(json_text(None if isinstance(value, Undefined) else value, indent=deep)))


def _batch(value: Any, size: int, fill: Any = None) -> list[list[Any]]:
    items, by = list(_items(value)), max(1, width(size, "a size"))
    rows = [items[at : at + by] for at in range(0, len(items), by)]
    if rows and fill is not None:
        rows[-1] += [fill] * (by - len(rows[-1]))
    return rows


def _slice(value: Any, count: int, fill: Any = None) -> list[list[Any]]:
    items, columns = list(_items(value)), max(1, width(count, "a count"))
    each, longer = divmod(len(items), columns)
    ends = [place * each + min(place, longer) for place in range(columns + 1)]
    rows = [items[start:end] for start, end in pairwise(ends)]
    return [[*row, fill] if fill is not None and longer and len(row) == each else row for row in rows]


def _sum(value: Any, attribute: Any = None, start: Any = 0) -> Any:
    numbers = [_attribute(item, attribute) for item in _items(value)]
    return sum(
        (item for item in numbers if isinstance(item, int | float)), start if isinstance(start, int | float) else 0
    )


def _round(value: Any, precision: Any = 0, method: str = "common") -> Any:
    if not isinstance(value, int | float):
        return value
    if not isinstance(precision, int) or abs(precision) > MAX_DIGITS:
        raise SecurityError(f"round to {str(precision)[:20]} digits in a template: at most {MAX_DIGITS}")
    return FILTERS["round"](value, precision, method)


def _length_of(value: Any) -> int:
    return len(value) if isinstance(value, str | Sequence | Mapping | range) else 0


def _items(value: Any) -> Sequence[Any]:
    if value is None or isinstance(value, Undefined):
        return ()
    found = list(value)
    work().spend(len(found))
    return found


def _text(value: Any) -> str:
    return text_of(value)


def _of_text(name: str) -> Filter:
    its = FILTERS[name]

    def apply(value: Any, *args: Any) -> Any:
        texts = [text_of(arg) for arg in args]
        for text in texts:
            width(len(text), "a set of characters")
        return its(text_of(value), *texts)

    return apply


_OURS: dict[str, Filter] = {
    "batch": _batch,
    "center": _center,
    "count": _length_of,
    "e": _text,
    "escape": _text,
    "format": _format,
    "indent": _indent,
    "join": _join,
    "length": _length_of,
    "list": lambda value: list(_items(value)),
    "replace": _replace,
    "round": _round,
    "safe": _text,
    "slice": _slice,
    "string": _text,
    "sum": _sum,
    "tojson": _tojson,
    "truncate": _truncate,
    "wordwrap": _wordwrap,
    **{name: _of_text(name) for name in ("capitalize", "lower", "title", "trim", "upper", "wordcount")},
}
#: methods of texts that can make long texts, replaced by what pays for it
GROWING_METHODS: Mapping[str, Filter] = {
    "format": _refused_format,
    "join": lambda by, parts: _join(parts, by),
    "replace": _replace,
}
#: of Jinja's own; each only looks at what it is given
_JINJAS = (
    "abs d default dictsort first float groupby int items last map max min reject rejectattr reverse select selectattr "
    "sort unique"
).split()
_JINJAS_TESTS = (
    "defined undefined none boolean true false integer float number string mapping sequence iterable lower upper"
).split()


def _divides(value: Any, by: Any) -> bool:
    # of numbers only: of a text, "%" fills in a form, as wide as the text asks
    return isinstance(value, int) and isinstance(by, int) and by != 0 and value % by == 0


def _comparing(name: str) -> Filter:
    return lambda value, other: compared(value, name, other)


_COMPARED = {
    "eq": "eq equalto ==",
    "ne": "ne !=",
    "lt": "lt lessthan <",
    "lteq": "le <=",
    "gt": "gt greaterthan >",
    "gteq": "ge >=",
    "in": "in",
}
_OUR_TESTS: dict[str, Filter] = {
    **{alias: _comparing(name) for name, aliases in _COMPARED.items() for alias in aliases.split()},
    "divisibleby": _divides,
    "even": lambda value: _divides(value, 2),
    "odd": lambda value: isinstance(value, int) and not _divides(value, 2),
}


#: filters that compare what they are given with itself, to its depths
_DEEP = frozenset({"dictsort", "groupby", "max", "min", "sort", "unique"})


def _paying(name: str, its: Filter) -> Filter:
    pay = _pay_deep if name in _DEEP else _pay
    # Jinja hands some of its filters the context or the environment first
    first = 1 if hasattr(its, "jinja_pass_arg") else 0

    @wraps(its)
    def apply(*args: Any, **named: Any) -> Any:
        for given in (*args[first:], *named.values()):
            pay(given)
        try:
            result = its(*args, **named)
        except (TypeError, LookupError) as error:
            said = f"{type(error).__name__}: {error}"
            raise SecurityError(f"the filter {name!r} cannot take what it is given ({said[:120]})") from error
        if isinstance(result, GeneratorType | Iterator):
            result = list(result)
        _pay(result)
        return result

    return apply


def _pay(value: Any) -> None:
    work().hold(value)


def _pay_deep(value: Any) -> None:
    work().weigh(value)


def prompt_filters() -> dict[str, Filter]:
    """The filters that a prompt may use, by name."""
    chosen = {name: cast(Filter, FILTERS[name]) for name in _JINJAS}
    return {name: _paying(name, its) for name, its in (chosen | _OURS).items()}


def prompt_tests() -> dict[str, Filter]:
    """The tests that a prompt may use, by name."""
    return {name: cast(Filter, TESTS[name]) for name in _JINJAS_TESTS} | _OUR_TESTS
