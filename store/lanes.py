"""Lanes: how work is split among workers. A lane is a shard of one moniker's sessions and is owned whole.

A session's lane follows from what never changes about it, so it is computed, never negotiated: its moniker, so that a
worker only owns what it can run, and a shard of its id, so that several workers share a moniker's sessions. Sessions
of an agent with a limit of its own share one shard, so that one worker keeps the limit.
"""

from __future__ import annotations

import zlib
from typing import Final, NewType

LaneId = NewType("LaneId", str)

#: into how many shards the sessions of a moniker are split; it is part of every stored lane and cannot be changed
SHARDS: Final = 16
#: the moniker of what belongs to no session: actions that name only an agent, schedules, upkeep
GENERAL: Final = "*"


def lane_of(moniker: str, shard_key: str) -> LaneId:
    """The lane of a session of `moniker`; `shard_key` is its id, or its agent's where the agent has a limit."""
    return LaneId(f"{moniker}/{zlib.crc32(shard_key.encode('utf-8', 'replace')) % SHARDS:02d}")


def general_lane(key: str) -> LaneId:
    """The lane of something that belongs to no session."""
    return lane_of(GENERAL, key)


#: a row from before there were lanes
NO_LANE: Final = LaneId("")
#: whoever owns it keeps house: upkeep, retention, schedules
HOUSEKEEPING: Final = LaneId(f"{GENERAL}/00")


def lanes_of(moniker: str) -> tuple[LaneId, ...]:
    """Every lane of a moniker."""
    return tuple(LaneId(f"{moniker}/{shard:02d}") for shard in range(SHARDS))


def moniker_of(lane: LaneId) -> str:
    """The moniker that a lane belongs to."""
    return lane.rpartition("/")[0]
