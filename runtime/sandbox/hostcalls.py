"""A program's calls of host functions: counted, checked, carried out, and answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from pydantic import JsonValue

from runtime.sandbox.errors import HostFunctionError, SandboxError
from runtime.sandbox.inside.plain import NotPlainError, plain
from runtime.sandbox.port import FailureKind, Host, HostCall, Limits
from runtime.sandbox.wire import Called

# An answer may be larger than what a program may say, but not without bound.
MAX_ANSWER_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Value:
    """What the host function returned."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class Raise:
    """What the program shall see raised; `type` is a built-in error's name."""

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A person has to allow the call first."""

    call: HostCall


@dataclass(frozen=True, slots=True)
class Stop:
    """The run ends here."""

    kind: FailureKind
    message: str
    line: int | None


Verdict: TypeAlias = HostCall | Ask | Stop


def judge(called: Called, host: Host, functions: tuple[str, ...], limits: Limits, before: int) -> Verdict:
    """Whether a call is carried out, asked about or ends the run; `before` calls were made before it."""
    if called.name not in functions:
        message = f"{called.name}() is not among the functions of this program: {', '.join(functions) or 'it has none'}"
        return Stop(FailureKind.UNKNOWN_FUNCTION, message, called.line)
    if before >= limits.host_calls:
        message = f"call {before + 1} of host functions, where {limits.host_calls} are allowed: ask for more at once"
        return Stop(FailureKind.TOO_MANY_CALLS, message, called.line)
    try:
        args, kwargs = plain([called.args, called.kwargs], limits.output_bytes)
    except NotPlainError as error:
        return Stop(FailureKind.REFUSED, f"an argument of {called.name}() is {error}", called.line)
    call = HostCall(called.name, tuple(args), kwargs, before + 1)
    return Ask(call) if call.name in host.needs_approval else call


async def carry_out(host: Host, call: HostCall) -> Value | Raise:
    """Run the host function. Arguments that do not fit it and a HostFunctionError become data for the program.

    Any other error is raised, HostWaitsError among them, and so is a result that is no JSON.
    """
    try:
        waiting = host.functions[call.name](*call.args, **call.kwargs)
    except TypeError as error:  # an async function checks its arguments when it is called, before it does anything
        return Raise("TypeError", str(error))
    try:
        return Value(plain(await waiting, MAX_ANSWER_BYTES))
    except HostFunctionError as error:
        return Raise("PermissionError" if error.forbidden else "RuntimeError", str(error))
    except NotPlainError as error:
        raise SandboxError(f"host function {call.name!r} returned a value {error}") from error


def order(answer: Value | Raise) -> tuple[str, dict[str, Any]]:
    """How the program is told the answer to its call."""
    match answer:
        case Value():
            return "answer", {"value": answer.value}
        case Raise():
            return "raise", {"type": answer.type, "message": answer.message}
        case _:
            assert_never(answer)
