from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import RefusedError
from runtime.spec import SessionSpec, read_spec
from store.conversations import Delivery

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.dictionaries(st.sampled_from([*SessionSpec.model_fields, "other"]), JSON)


def test_everything_but_the_moniker_may_be_left_out() -> None:
    spec = read_spec({"moniker": "echo"}, "a1")
    assert (spec.task, spec.config, spec.stop_on_done, spec.delivery) == ("", {}, None, Delivery.PUSH)
    assert (spec.max_steps, spec.max_runtime_s, spec.action_id) == (None, None, "a1")


def test_what_a_newer_client_says_is_passed_over() -> None:
    assert read_spec({"moniker": "echo", "colour": "blue"}, "a1").moniker == "echo"


def test_a_payload_cannot_claim_to_be_of_another_action() -> None:
    assert read_spec({"moniker": "echo", "action_id": "forged"}, "a1").action_id == "a1"


def test_every_bad_field_is_named() -> None:
    with pytest.raises(RefusedError, match=r"max_steps: .*; max_runtime_s: "):
        read_spec({"moniker": "echo", "max_steps": 0, "max_runtime_s": float("inf")}, "a1")


@given(st.one_of(JSON, FIELDS))
def test_any_payload_is_read_or_refused(payload: Any) -> None:
    with suppress(RefusedError):
        spec = read_spec(payload, "a1")
        assert SessionSpec.model_validate(spec.model_dump(mode="json")) == spec
