"""Live text on its way to the store: few commits, nothing lost or doubled, and never in the model's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime import tokens
from runtime.errors import OwnershipLostError
from runtime.llm.port import LlmErrorKind
from runtime.testing import FakeLog
from runtime.tokens import LiveCall, TokenFeed
from store.agent_events import AgentEvent, events_of
from store.database import TenantStore
from store.errors import StoreUnavailableError
from store.ids import SessionId
from store.testing import FrozenClock
from tests.runtime.kit import opened
from tests.runtime.livetext import Shown, pieces, shown
from tests.support import eventually, examples


async def owned() -> None:
    """The session is this worker's."""


async def lost() -> None:
    raise OwnershipLostError("another worker has it")


def call(session: str = "s", number: int = 1, check: Any = owned, epoch: int = 1) -> LiveCall:
    return LiveCall(SessionId(session), 0, number, epoch, "lane", check)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[TenantStore]:
    async with opened(tmp_path) as store:
        yield store.tenant()


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def feed(db: TenantStore, clock: FrozenClock) -> TokenFeed:
    return TokenFeed(db, clock, FakeLog())


async def commits(db: TenantStore) -> int:
    return await events_of(db).version()


async def test_the_first_piece_is_stored_at_once_and_the_next_ones_together(
    db: TenantStore, clock: FrozenClock, feed: TokenFeed
) -> None:
    before, text = await commits(db), feed.begin(call())
    text.say("a")
    await eventually(lambda: clock.sleepers > 0)
    for piece in ("b", "c", "d"):
        text.say(piece)
    assert await commits(db) == before + 1
    clock.advance(tokens.EVERY_S)
    await text.ended()
    assert [(row.data["offset"], row.data["text"]) for row in await pieces(db)] == [(0, "a"), (1, "bcd")]
    assert await commits(db) == before + 2


async def test_all_streams_share_a_commit(db: TenantStore, feed: TokenFeed) -> None:
    before = await commits(db)
    texts = [feed.begin(call(f"s{number}")) for number in range(50)]
    for text in texts:
        text.say("hello")
    await asyncio.gather(*[text.ended() for text in texts])
    assert await commits(db) == before + 1
    assert [shown(await pieces(db, f"s{number}")) for number in range(50)] == [{1: "hello"}] * 50


async def test_who_is_silent_costs_nothing(db: TenantStore, clock: FrozenClock, feed: TokenFeed) -> None:
    text = feed.begin(call())
    await text.ended()
    text.say("")
    await text.ended()
    assert (await pieces(db), clock.sleepers) == ([], 0)
    text.say("a")
    await text.ended()
    before = await commits(db)
    for _ in range(5):
        clock.advance(1.0)
        await asyncio.sleep(0)
    assert (await commits(db), clock.sleepers) == (before, 0)


async def test_a_restart_voids_what_was_said(db: TenantStore, feed: TokenFeed, clock: FrozenClock) -> None:
    text = feed.begin(call())
    text.say("wrong")
    await text.ended()
    text.say(" and never stored")
    text.restart(LlmErrorKind.SERVER)
    clock.advance(1.0)
    await text.ended()
    assert shown(await pieces(db)) == {1: ""}
    text.say("right")
    clock.advance(1.0)
    await text.ended()
    rows = await pieces(db)
    assert shown(rows) == {1: "right"}
    assert [row.data.get("restart") for row in rows] == [None, "server", None]
    assert "never" not in "".join(row.data["text"] for row in rows)


async def test_an_older_stream_that_comes_late_changes_nothing(db: TenantStore, feed: TokenFeed) -> None:
    first, second = feed.begin(call()), feed.begin(call())
    second.say("new")
    await second.ended()
    first.say("old")
    await asyncio.gather(first.ended())
    assert shown(await pieces(db)) == {1: "new"}


async def test_a_stale_owners_text_is_not_stored(db: TenantStore, feed: TokenFeed) -> None:
    stale, mine = feed.begin(call("theirs", check=lost)), feed.begin(call("mine"))
    stale.say("too late")
    mine.say("in time")
    await asyncio.gather(stale.ended(), mine.ended())
    assert (await pieces(db, "theirs"), shown(await pieces(db, "mine"))) == ([], {1: "in time"})


async def test_a_call_that_was_left_is_told_no_more(db: TenantStore, feed: TokenFeed) -> None:
    text = feed.begin(call())
    text.say("a")
    text.leave()
    text.say("b")
    text.restart(LlmErrorKind.TIMEOUT)
    await text.ended()
    assert await pieces(db) == []


async def test_a_slow_store_gets_one_large_row_and_holds_nobody_up(
    db: TenantStore, clock: FrozenClock, feed: TokenFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "END_PATIENCE_S", 0.01)
    text = feed.begin(call())
    async with db.store.tables["agent_events"]._locks.commit.held():
        text.say("0")
        await asyncio.sleep(0)
        for number in range(1, 10_000):
            text.say(f" {number}")
        await text.ended()  # it does not wait for ever
    await eventually(lambda: clock.sleepers > 0)
    clock.advance(1.0)
    text = feed.begin(call("other"))
    text.say("x")

    async def is_stored() -> bool:
        return bool(await pieces(db, "other"))

    await eventually(is_stored)
    rows = await pieces(db)
    assert len(rows) <= 2
    assert shown(rows) == {1: " ".join(map(str, range(10_000)))}


async def test_what_waits_is_bounded_and_the_loss_is_logged(
    db: TenantStore, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MAX_WAITING_CHARS", 100)
    log = FakeLog()
    feed = TokenFeed(db, clock, log)
    small, large = feed.begin(call("small")), feed.begin(call("large"))
    small.say("x" * 60)
    large.say("y" * 60)
    large.say("z")
    await asyncio.gather(small.ended(), large.ended())
    assert (shown(await pieces(db, "small")), await pieces(db, "large")) == ({1: "x" * 60}, [])
    assert [fields["session_id"] for _, _, fields in log.lines] == ["large"]
    again = feed.begin(call("large"))
    again.say("there is room again")
    clock.advance(1.0)
    await again.ended()
    assert shown(await pieces(db, "large")) == {1: "there is room again"}


async def test_a_store_that_fails_silences_the_stream_and_not_the_model(
    db: TenantStore, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> None:
        raise StoreUnavailableError("gone")

    log = FakeLog()
    feed = TokenFeed(db, clock, log)
    with monkeypatch.context() as patched:
        patched.setattr(tokens, "append_events", away)
        text = feed.begin(call())
        text.say("lost")
        await text.ended()
    text.say("not told")
    assert [line[:2] for line in log.lines] == [
        ("warning", "live text could not be stored; the step shows it when it ends: gone")
    ]
    clock.advance(1.0)
    other = feed.begin(call())
    other.say("told")
    await other.ended()
    assert shown(await pieces(db)) == {1: "told"}


WORDS = st.text(max_size=5)
SAID = st.lists(st.tuples(st.integers(0, 2), st.one_of(WORDS, st.none())), max_size=30)


@given(said=SAID, turns=st.lists(st.integers(0, 3), min_size=30, max_size=30), again=st.randoms())
@examples(15)
async def test_whatever_is_said_when_the_page_shows_the_text(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[int, str | None]], turns: list[int], again: Random
) -> None:
    """Pieces of several calls with restarts between them, flushed at any moment, and read by a page twice over."""
    async with opened(tmp_path_factory.mktemp("feed")) as store:
        db, clock = store.tenant(), FrozenClock()
        feed = TokenFeed(db, clock, FakeLog())
        texts = [feed.begin(call(number=number)) for number in range(3)]
        expected = ["", "", ""]
        for (number, piece), turn in zip(said, turns, strict=False):
            if piece is None:
                texts[number].restart(LlmErrorKind.SERVER)
                expected[number] = ""
            else:
                texts[number].say(piece)
                expected[number] += piece
            for _ in range(turn):
                clock.advance(0.03)
                await asyncio.sleep(0)
        for text in texts:
            while not text._settled.is_set():
                clock.advance(1.0)
                await asyncio.sleep(0)
        rows = await pieces(db)
        page = Shown()
        for place, event in enumerate(rows):
            page.take(event)
            page.take(_any_of(rows[: place + 1], again))
        known = {number: text.encode("utf-16", "replace") for number, text in enumerate(expected) if text}
        assert {number: text.encode("utf-16") for number, text in page.texts.items() if text} == known
        assert page.gaps == 0


def _any_of(rows: list[AgentEvent], chance: Random) -> AgentEvent:
    """A row that has come before, as after a reconnect; it is of the stream that is shown now, or of a void one."""
    return rows[chance.randrange(len(rows))]
