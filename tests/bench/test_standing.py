"""What the rounds of a comparison come to."""

from __future__ import annotations

import pytest

from bench.peers.standing import AIMS, standings
from bench.peers.work import Figure, growth


def test_more_is_better_where_things_are_done_a_second() -> None:
    ours, theirs = standings(Figure.STEPS, "us", {"us": [100.0, 200.0, 300.0], "LangGraph": [10.0, 10.0, 100.0]})
    assert (ours.ratio, theirs.ratio) == (1.0, 10.0)
    assert (theirs.median, theirs.lowest, theirs.highest) == (10.0, 10.0, 100.0)
    assert theirs.reached is True


def test_less_is_better_where_time_or_space_is_taken() -> None:
    _, theirs = standings(Figure.DISK, "us", {"us": [10.0], "LangGraph, sync": [190.0]})
    assert (theirs.ratio, theirs.aim, theirs.reached) == (19.0, 20, False)


def test_a_ratio_is_of_one_round_not_of_two_medians() -> None:
    # The machine was twice as slow in the second round, for both.
    _, theirs = standings(Figure.ACTIONS, "us", {"us": [100.0, 50.0], "DBOS": [10.0, 5.0]})
    assert theirs.ratio == 10.0


def test_who_has_no_aim_reaches_and_misses_none() -> None:
    _, theirs = standings(Figure.ACTIONS, "us", {"us": [1.0], "huey, no fsync": [9.0]})
    assert (theirs.aim, theirs.reached) == (None, None)


def test_rounds_that_are_not_the_same_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        standings(Figure.STEPS, "us", {"us": [1.0, 2.0], "DBOS": [1.0]})


def test_every_figure_has_aims() -> None:
    assert set(AIMS) == set(Figure)


def test_what_is_added_is_of_its_size_and_the_same_each_time() -> None:
    assert len(growth(3, 1024)) == 1024
    assert growth(3, 1024) == growth(3, 1024) != growth(4, 1024)
