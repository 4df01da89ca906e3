"""What a program, a host function and a limit mean is the same in light and in full mode."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from runtime.sandbox.errors import SandboxError, SandboxMisuseError
from runtime.sandbox.port import Failed, FailureKind, Finished, Host, Limits, Outcome, Program, Sandbox
from tests.runtime.sandbox.kit import SESSION, full, host, light, members
from tests.support import eventually, examples

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("nothing_left")]

ROOT = Path(__file__).resolve().parents[3]
FUNCTIONS = ("note", "add", "fail")
QUICK = Limits(seconds=20, memory_bytes=32 * 2**20, host_calls=3, output_bytes=2000, code_bytes=5000)


@pytest.fixture(params=["light", "full"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return made(request, host())


def made(request: pytest.FixtureRequest, of: Host) -> Sandbox:
    if request.param == "light":
        return light(of)
    request.getfixturevalue("walls")
    return full(of)


async def run(sandbox: Sandbox, code: str, **inputs: JsonValue) -> Outcome:
    return await sandbox.run(Program(code, inputs, FUNCTIONS, QUICK))


async def failed(sandbox: Sandbox, code: str, **inputs: JsonValue) -> Failed:
    outcome = await run(sandbox, code, **inputs)
    assert isinstance(outcome, Failed), outcome
    return outcome


async def test_the_last_expression_is_the_result(sandbox: Sandbox) -> None:
    outcome = await run(sandbox, "print('twice')\nprint('é')\ny = x * 2\n(y, [y])", x=21)
    assert isinstance(outcome, Finished)
    assert (outcome.result, outcome.printed, outcome.usage.host_calls) == ([42, [42]], "twice\né\n", 0)


async def test_without_an_expression_at_its_end_the_result_is_none(sandbox: Sandbox) -> None:
    outcome = await run(sandbox, "x = 1")
    assert isinstance(outcome, Finished)
    assert outcome.result is None


async def test_host_functions_answer(sandbox: Sandbox) -> None:
    outcome = await run(sandbox, "f = add\n[f(1), add(1, b=5), note({'a': [1]})['noted']['a'][0]]")
    assert isinstance(outcome, Finished)
    assert (outcome.result, outcome.usage.host_calls) == ([2, 6, 1], 3)


async def test_a_host_functions_failure_is_raised_inside(sandbox: Sandbox) -> None:
    outcome = await run(sandbox, "try:\n    fail('no paper')\nexcept RuntimeError as error:\n    r = str(error)\nr")
    assert isinstance(outcome, Finished)
    assert outcome.result == "no paper"


async def test_wrong_arguments_are_raised_inside(sandbox: Sandbox) -> None:
    outcome = await failed(sandbox, "add(1, 2, 3)")
    assert outcome.kind is FailureKind.RAISED
    assert "TypeError: add() takes from 1 to 2 positional arguments" in outcome.message


@pytest.mark.parametrize(
    ("code", "kind", "line"),
    [
        ("x = 1\ndef f(:", FailureKind.SYNTAX, 2),
        ("x = 1\n\n1 / 0", FailureKind.RAISED, 3),
        ("def f():\n    return [][0]\nf()", FailureKind.RAISED, 2),
        ("x = 1\nx = 'x' * 10**10", FailureKind.OUT_OF_MEMORY, 2),
        ("def f(n):\n    return f(n + 1)\nf(0)", FailureKind.RECURSION, 2),
        ("print('x' * 3000)", FailureKind.TOO_MUCH_OUTPUT, None),
        ("'x' * 3000", FailureKind.REFUSED, None),
        ("{1}", FailureKind.REFUSED, None),
        ("#" * 6000, FailureKind.REFUSED, None),
        ("note('x' * 3000)", FailureKind.REFUSED, None),
    ],
)
async def test_a_failure_has_its_kind_and_line(
    sandbox: Sandbox, code: str, kind: FailureKind, line: int | None
) -> None:
    outcome = await failed(sandbox, code)
    assert (outcome.kind, outcome.line) == (kind, line), outcome


async def test_what_was_printed_before_a_failure_is_kept(sandbox: Sandbox) -> None:
    assert (await failed(sandbox, "print('one')\n1 / 0")).printed == "one\n"


async def test_more_calls_than_allowed_end_it_though_it_catches_everything(sandbox: Sandbox) -> None:
    code = "while True:\n    try:\n        note(1)\n    except BaseException:\n        pass"
    outcome = await failed(sandbox, code)
    assert (outcome.kind, outcome.usage.host_calls) == (FailureKind.TOO_MANY_CALLS, 3)


async def test_an_input_that_is_no_variable_is_refused(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Program("1", {"two words": 1}))
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.REFUSED


async def test_an_input_named_as_a_function_is_refused(sandbox: Sandbox) -> None:
    assert "has the name of a host function" in (await failed(sandbox, "1", note=1)).message


async def test_a_function_that_the_host_lacks_is_a_mistake_of_ours(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxMisuseError, match="launch"):
        await sandbox.run(Program("1", functions=("launch",)))


async def test_one_run_leaves_nothing_to_the_next(sandbox: Sandbox) -> None:
    spoil = "import json, math\nleft = 1\ntry:\n    json.dumps = math.pi = None\nexcept Exception:\n    pass\n"
    spoil += "try:\n    open('/tmp/left', 'w').write('x')\nexcept Exception:\n    pass\nprint = None"
    await run(sandbox, spoil)
    look = "import json, math\ntry:\n    left\n    seen = True\nexcept NameError:\n    seen = False\n"
    look += "try:\n    open('/tmp/left').read()\n    seen = True\nexcept OSError:\n    pass\n"
    outcome = await run(sandbox, look + "print('fine')\n[seen, json.dumps([1]), int(math.pi)]")
    assert isinstance(outcome, Finished)
    assert (outcome.result, outcome.printed) == ([False, "[1]", 3], "fine\n")


async def test_two_runs_at_once_do_not_meet(sandbox: Sandbox) -> None:
    outcomes = await asyncio.gather(*(run(sandbox, "mine = x\nnote(x)\nmine", x=number) for number in range(3)))
    assert [outcome.result for outcome in outcomes if isinstance(outcome, Finished)] == [0, 1, 2]


@pytest.mark.parametrize("mode", ["light", "full"])
async def test_a_fault_of_a_host_function_reaches_us_and_not_the_program(
    mode: str, request: pytest.FixtureRequest
) -> None:
    async def broken() -> JsonValue:
        raise LookupError("the inside of the host")

    async def odd() -> JsonValue:
        return [b"bytes"]  # type: ignore[list-item]

    of = Host(SESSION, {"broken": broken, "odd": odd})
    if mode == "full":
        request.getfixturevalue("walls")
    sandbox: Sandbox = light(of) if mode == "light" else full(of)
    with pytest.raises(LookupError, match="inside of the host"):
        await sandbox.run(Program("try:\n    broken()\nexcept BaseException:\n    pass", functions=("broken",)))
    with pytest.raises(SandboxError, match="'odd' returned a value of type bytes"):
        await sandbox.run(Program("odd()", functions=("odd",)))


@pytest.mark.parametrize("mode", ["light", "full"])
async def test_a_killed_worker_leaves_no_program_behind(mode: str, request: pytest.FixtureRequest) -> None:
    if mode == "full":
        request.getfixturevalue("walls")
    command = [sys.executable, "-m", "tests.runtime.sandbox.orphaning", mode]
    worker = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert worker.stdout is not None
    (process,) = (await worker.stdout.readline()).split()
    assert members(int(process))
    worker.kill()
    await worker.wait()
    await eventually(lambda: not members(int(process)), deadline_s=30)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)


@given(values=st.lists(JSON, min_size=1, max_size=20))
@examples(8)
async def test_any_json_input_comes_back_equal(sandbox: Sandbox, values: list[JsonValue]) -> None:
    limits = Limits(seconds=20, output_bytes=2**20)
    outcome = await sandbox.run(Program("[x, note(x)['noted']]", {"x": values}, ("note",), limits))
    assert isinstance(outcome, Finished), outcome
    assert json.dumps(outcome.result) == json.dumps([values, values])
