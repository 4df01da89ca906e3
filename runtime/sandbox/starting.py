"""What both modes do before a program's first turn: refuse what cannot be run, and start the process around it."""

from __future__ import annotations

import contextlib
import keyword
from collections.abc import AsyncIterator, Callable, Sequence

from runtime.ports import Clock
from runtime.sandbox.carrying import within
from runtime.sandbox.child import Child, child
from runtime.sandbox.errors import SandboxMisuseError, SandboxUnavailableError
from runtime.sandbox.inside.plain import NotPlainError, plain
from runtime.sandbox.port import Failed, FailureKind, Host, Program, Usage
from runtime.sandbox.wire import NonsenseError, Ready

MAX_INPUT_BYTES = 8 * 2**20
# A process that was started on a machine out of breath; the program's own time has not begun.
START_SECONDS = 30.0
NOISE_BYTES = 2000


def misfit(program: Program, host: Host) -> Failed | None:
    """Why `program` cannot be run at all. Raises SandboxMisuseError when it names functions that the host lacks."""
    if unknown := sorted(set(program.functions) - set(host.functions)):
        raise SandboxMisuseError(f"the program may call {unknown}, but the host has {sorted(host.functions)}")
    wrong = _wrong_code(program) or _wrong_inputs(program)
    return Failed(FailureKind.REFUSED, wrong, None, "", Usage()) if wrong else None


def _wrong_code(program: Program) -> str | None:
    try:
        size = len(program.code.encode())
    except UnicodeEncodeError:
        return "the code holds half of a surrogate pair: give whole letters"
    if size > program.limits.code_bytes:
        return f"the code has {size} bytes, where {program.limits.code_bytes} are allowed: write less"
    return None


def _wrong_inputs(program: Program) -> str | None:
    for name in program.inputs:
        if not name.isidentifier() or keyword.iskeyword(name):
            return f"the input {name[:50]!r} cannot be a variable: give it another name"
        if name in program.functions:
            return f"the input {name!r} has the name of a host function: give it another name"
    try:
        plain(dict(program.inputs), MAX_INPUT_BYTES)
    except NotPlainError as error:
        return f"an input is {error}"
    return None


@contextlib.asynccontextmanager
async def started(
    command: Callable[[int], Sequence[str]], clock: Clock, max_line: int, more: Sequence[int] = ()
) -> AsyncIterator[Child]:
    """A process that waits for its program. Raises SandboxUnavailableError, with what it said, if it does not come."""
    async with child(command, max_line, more) as process:
        try:
            first = await within(clock, START_SECONDS, process.hear())
        except TimeoutError:
            message = f"the sandbox did not start within {START_SECONDS:g} s: try again when the machine is less busy"
            raise SandboxUnavailableError(message) from None
        except NonsenseError as error:
            raise SandboxUnavailableError(f"the sandbox's process speaks otherwise than we do: {error}") from error
        if not isinstance(first, Ready):
            said = (await process.text.read(NOISE_BYTES)).decode(errors="replace").strip() or "nothing"
            raise SandboxUnavailableError(f"the sandbox did not start; it said: {said}")
        yield process
