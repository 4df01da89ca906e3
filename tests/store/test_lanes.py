"""Lanes: computed, stable, spread."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from store.lanes import GENERAL, HOUSEKEEPING, SHARDS, general_lane, lane_of, lanes_of, moniker_of
from tests.store.values import TEXT


@given(TEXT, TEXT)
def test_a_session_is_in_one_of_its_monikers_lanes(moniker: str, key: str) -> None:
    lane = lane_of(moniker, key)
    assert lane in lanes_of(moniker)
    assert moniker_of(lane) == moniker
    assert lane == lane_of(moniker, key)


def test_a_stored_lane_is_found_again_by_every_later_version() -> None:
    assert [lane_of("echo", key) for key in ("s", "s-1", "日")] == ["echo/11", "echo/14", "echo/10"]
    assert SHARDS == 16


def test_sessions_are_spread_over_every_lane() -> None:
    found = Counter(lane_of("echo", f"session-{number}") for number in range(1_600))
    assert set(found) == set(lanes_of("echo"))
    assert max(found.values()) < 2 * min(found.values())


def test_what_names_no_session_is_in_a_general_lane() -> None:
    assert moniker_of(general_lane("agent")) == GENERAL
    assert HOUSEKEEPING in lanes_of(GENERAL)
