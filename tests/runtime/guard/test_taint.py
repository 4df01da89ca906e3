"""What comes from outside stays tainted, and a tainted context runs no gated tool without a person."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.guard.taint import CLEAN, Call, Labelled, May, Taint, ToolFlags, combine, may_run
from tests.support import examples

CALL = Call("send", "digest-1")
_TAINTS = st.frozensets(st.sampled_from(["web", "tool:x", "memory:7", "user:1"])).map(Taint)


@given(one=_TAINTS, others=st.lists(_TAINTS, max_size=4))
@examples(100)
def test_taint_only_grows(one: Taint, others: list[Taint]) -> None:
    joined = one.joined(*others)
    assert joined.sources == one.sources.union(*(other.sources for other in others))
    assert joined.tainted == (one.tainted or any(other.tainted for other in others))
    assert Taint.read(joined.written()) == joined


@given(parts=st.lists(st.tuples(st.text(max_size=3), _TAINTS), max_size=5))
@examples(100)
def test_what_is_made_of_tainted_parts_is_tainted(parts: list[tuple[str, Taint]]) -> None:
    made = combine("".join, [Labelled(text, taint) for text, taint in parts]).map(len)
    assert made.value == sum(len(text) for text, _ in parts)
    assert made.taint.tainted == any(taint.tainted for _, taint in parts)


@pytest.mark.parametrize("stored", [None, "", "web", {}, 0, [1], ["web", None]])
def test_a_taint_that_was_not_stored_as_one_counts_as_tainted(stored: object) -> None:
    assert Taint.read(stored).tainted


def test_an_empty_list_is_clean() -> None:
    assert Taint.read([]) == CLEAN


@pytest.mark.parametrize(
    ("read_only", "idempotent", "needs_approval", "reaches_out", "tainted", "approved"),
    list(product([False, True], repeat=6)),
)
def test_every_row_of_the_policy(
    read_only: bool, idempotent: bool, needs_approval: bool, reaches_out: bool, tainted: bool, approved: bool
) -> None:
    flags = ToolFlags("send", read_only, idempotent, needs_approval, reaches_out)
    taint = Taint.of("web") if tainted else CLEAN
    permission = may_run(flags, CALL, taint, frozenset({CALL} if approved else ()))
    harmless = read_only and not reaches_out
    expected = approved or (not needs_approval and (harmless or not tainted))
    assert permission.may is (May.RUN if expected else May.ASK)
    assert bool(permission.reason) is not expected


def test_an_approval_is_for_one_call_only() -> None:
    flags = ToolFlags("send")
    other = frozenset({Call("send", "digest-2"), Call("post", "digest-1")})
    assert may_run(flags, CALL, Taint.of("web"), other).may is May.ASK


def test_a_tool_of_which_nothing_was_said_is_gated() -> None:
    assert ToolFlags("send").gated


def test_memory_keeps_its_taint_over_thirty_sessions() -> None:
    taint = Taint.of("tool:http")
    for session in range(30):
        taint = Taint.read(taint.written()).joined(Taint.of(f"memory:{session}"))
    assert may_run(ToolFlags("send"), CALL, taint, frozenset()).may is May.ASK
    assert "tool:http" in may_run(ToolFlags("send"), CALL, taint, frozenset()).reason


def test_flags_of_another_tool_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="look the flags up"):
        may_run(ToolFlags("fetch"), CALL, CLEAN, frozenset())
