"""The process around a program in light mode: it drives pydantic-monty, whose interpreter is one process further down.

What the program does comes here as events of pydantic-monty, so nothing that it prints can look like a message of ours.
Both processes stand in one session of the system and are killed together.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from typing import Any

from pydantic_monty import (
    FunctionSnapshot,
    FutureSnapshot,
    Monty,
    MontyComplete,
    MontyConversionError,
    MontyCrashedError,
    MontyRuntimeError,
    MontySession,
    MontySyntaxError,
    NameLookupSnapshot,
)

from runtime.sandbox.inside.channel import Channel
from runtime.sandbox.inside.limits import forbid
from runtime.sandbox.inside.plain import NotPlainError, plain

Snapshot = FunctionSnapshot | NameLookupSnapshot | FutureSnapshot | MontyComplete


def main(descriptor: str, options: str) -> None:
    """Carry one program, or the rest of one, and stay until killed."""
    given = json.loads(options)
    forbid(given["address_space"], given["cpu_seconds"], file_bytes=0)
    channel = Channel(int(descriptor))
    with Monty(binary_path=given["engine"], min_processes=1, max_processes=1) as pool:
        channel.say("ready")
        order = channel.hear()
        # Sleeping takes no time: what would wait is charged as running, so that the limit of time ends it.
        with pool.checkout(script_name="program.py", limits=order["limits"], os_policy={"sleep": "zero"}) as session:
            _Carrying(channel, session, order).carry()
        channel.hear()


class _Carrying:
    """One program on its way."""

    def __init__(self, channel: Channel, session: MontySession, order: dict[str, Any]) -> None:
        self._channel = channel
        self._session = session
        self._order = order
        self._functions = {name: _named(name) for name in order["functions"]}

    def carry(self) -> None:
        """Take the program on until it has ended, and say how."""
        try:
            snapshot = self._start()
            while not isinstance(snapshot, MontyComplete):
                snapshot = self._next(snapshot)
            self._channel.say("done", result=self._plain("the result is ", snapshot.output))
        except NotPlainError as error:
            self._channel.say("broke", how="refused", message=str(error))
        except MontyConversionError as error:
            self._channel.say("broke", how="refused", message=f"a value cannot leave the sandbox: {error}")
        except MontySyntaxError as error:
            self._channel.say("broke", how="syntax", message=str(error), line=_line(error))
        except MontyRuntimeError as error:
            frames = len(error.traceback())
            self._channel.say("broke", how="raised", message=str(error), line=_line(error), frames=frames)
        except MontyCrashedError as error:
            self._channel.say("broke", how="crashed", message=str(error), late=error.timed_out)
        except MemoryError:
            # Ours, not the program's: what it sent out does not fit into this process.
            self._channel.say("broke", how="memory", message="its values do not fit into memory outside the program")

    def _start(self) -> Snapshot:
        if "snapshot" in self._order:
            state = base64.b64decode(self._order["snapshot"])
            return self._session.load_snapshot(state, print_callback=self._printed)
        return self._session.feed_start(self._order["code"], inputs=self._order["inputs"], print_callback=self._printed)

    def _printed(self, _stream: str, text: str) -> None:
        self._channel.say("printed", text=text)

    def _next(self, snapshot: FunctionSnapshot | NameLookupSnapshot | FutureSnapshot) -> Snapshot:
        if isinstance(snapshot, FutureSnapshot):
            raise NotPlainError("it awaits something that never comes: call host functions without await")
        if isinstance(snapshot, NameLookupSnapshot):
            function = self._functions.get(snapshot.variable_name)
            return snapshot.resume(value=function) if function else snapshot.resume()
        if snapshot.is_os_function:  # files, the environment, foreign modules: there are none
            return snapshot.resume_not_handled()
        return self._call(snapshot)

    def _call(self, snapshot: FunctionSnapshot) -> Snapshot:
        name = str(snapshot.function_name)
        args = self._plain(f"an argument of {name}() is ", [list(snapshot.args), snapshot.kwargs])
        self._channel.say("called", name=name, args=args[0], kwargs=args[1], line=self._line_of(snapshot))
        while (answer := self._channel.hear())["do"] == "dump":
            self._channel.say("dumped", data=base64.b64encode(snapshot.dump()).decode())
        if answer["do"] == "raise":
            return snapshot.resume({"exc_type": answer["type"], "message": answer["message"]})
        return snapshot.resume({"return_value": answer["value"]})

    def _line_of(self, snapshot: FunctionSnapshot) -> int | None:
        code = self._order.get("code")
        return None if code is None else code.encode()[: snapshot.position.start].count(b"\n") + 1

    def _plain(self, what: str, value: Any) -> Any:
        try:
            return plain(value, self._order["output_bytes"])
        except NotPlainError as error:
            raise NotPlainError(f"{what}{error}") from None


def _named(name: str) -> Callable[[], None]:
    """What stands for a host function in the program; the interpreter asks only for its name."""

    def function() -> None:
        raise NotImplementedError(name)

    function.__name__ = function.__qualname__ = name
    return function


def _line(error: MontySyntaxError | MontyRuntimeError) -> int | None:
    frames = error.traceback()
    return frames[-1].line if frames else None


if __name__ == "__main__":
    main(*sys.argv[1:])
