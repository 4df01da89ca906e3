"""What came from outside, marked by its type, so that it is not taken for something that we or the operator wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class Untrusted(Generic[T]):
    """A value from outside. It cannot be put into text by accident: whoever needs it takes `value` and escapes it.

    `source` says where it is from, for people.
    """

    value: T
    source: str = field(compare=False)

    def __repr__(self) -> str:
        # Logs and traces show that there is something, not what: it could pretend to be another line of them.
        size = f", {len(self.value)} long" if isinstance(self.value, str | bytes | tuple) else ""
        return f"<untrusted {type(self.value).__name__} from {self.source!a}{size}>"

    def __str__(self) -> NoReturn:
        raise TypeError("text from outside is not put into other text as it is: take .value and escape it")

    def __format__(self, _spec: str) -> NoReturn:
        str(self)
        raise AssertionError("str() raised")
