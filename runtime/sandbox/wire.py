"""What the process around a program may say to the worker. Anything else ends the run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError


class Said(BaseModel):
    """The base of all messages. `mark` proves, in full mode, that our runner wrote it and not the program."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    mark: str | None = None


class Ready(Said):
    """The process stands and waits for its program."""

    say: Literal["ready"]


class Printed(Said):
    say: Literal["printed"]
    text: str


class Called(Said):
    """The program calls a host function and waits."""

    say: Literal["called"]
    name: str
    args: list[JsonValue]
    kwargs: dict[str, JsonValue]
    line: int | None = None


class Dumped(Said):
    """The answer to `dump`: the program as bytes, in base64."""

    say: Literal["dumped"]
    data: str


class Done(Said):
    say: Literal["done"]
    result: JsonValue


class Broke(Said):
    """The program ended without a result. `frames` is the depth of the stack at which an error left it."""

    say: Literal["broke"]
    how: Literal["syntax", "raised", "refused", "crashed", "memory", "recursion"]
    message: str
    line: int | None = None
    frames: int = 0
    late: bool = False


Message = Annotated[Ready | Printed | Called | Dumped | Done | Broke, Field(discriminator="say")]
_MESSAGES: TypeAdapter[Ready | Printed | Called | Dumped | Done | Broke] = TypeAdapter(Message)


class NonsenseError(ValueError):
    """A line that is no message."""


def read(line: bytes) -> Ready | Printed | Called | Dumped | Done | Broke:
    """The message on a line. Raises NonsenseError, whatever bytes it is given."""
    try:
        return _MESSAGES.validate_json(line)
    except ValidationError as error:
        raise NonsenseError(f"no message: {error.errors(include_input=False)[0]['msg']}") from None
