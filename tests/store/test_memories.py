"""Memories: who sees which, what finds them, and that what is deleted is off the disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.database import Store, TenantStore, open_store
from store.erasure import Erasure
from store.errors import BadFilterError, BadRowError, NotFoundError
from store.ids import MemoryId, SessionId, TenantId
from store.memories import (
    MAX_TEXT_CHARS,
    Allowed,
    Memory,
    MemoryKind,
    MemoryVector,
    Wanted,
    delete_memories,
    find_memories,
    get_memory,
    iteration_of,
    list_memories,
    memories_of,
    memory_id_of,
    recall_memories,
    write_memory,
)
from store.options import StoreOptions
from store.retention import RetentionRules, trim_memories
from store.schema import MEMORIES
from store.testing import START, CountingIds, FrozenClock
from store.upkeep import Upkeep, UpkeepRules
from tests.store.rows import a_memory

ANYBODY = Wanted(Allowed())
EVERYTHING = Wanted(None)
SECRET = "zanzibarquince"


class Told:
    """Upkeep's log; a warning fails the test."""

    def debug(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None:
        raise AssertionError(f"{event}: {fields}")


async def recalled(db: TenantStore, question: str, wanted: Wanted = ANYBODY, **more: object) -> list[str]:
    return [str(found.item.memory_id) for found in await recall_memories(db, question, wanted, **more)]  # type: ignore[arg-type]


async def write(db: TenantStore, *memories: Memory) -> None:
    await memories_of(db).insert_missing(memories)


async def keep_house(store: Store) -> None:
    """One turn of upkeep as `agents.py upkeep --now` has it."""
    await Upkeep(store, UpkeepRules(keep=timedelta(milliseconds=1)), Told()).once(force=True)


def on_disk(store: Store, text: str) -> list[str]:
    """The files of the table that hold a text."""
    folder = store.options.folder
    assert folder is not None
    files = [path for path in (folder / "memories.lance").rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files if text.encode() in path.read_bytes()]


# --- written and read ---


async def test_a_memory_comes_back_as_it_was_written(db: TenantStore) -> None:
    memory = a_memory(subject="well", data={"n": [1]}, taint=["web"], source="a.md", user_id="mia")
    await write(db, memory)
    assert await get_memory(db, memory.memory_id) == memory
    with pytest.raises(NotFoundError):
        await get_memory(db, MemoryId("none"))


async def test_written_twice_it_is_there_once_as_it_was_first(db: TenantStore) -> None:
    await write(db, a_memory(text="First words."))
    await write(db, a_memory(text="Second words."))
    assert [memory.text for memory in (await list_memories(db, EVERYTHING)).items] == ["First words."]
    assert (await recalled(db, "first"), await recalled(db, "second")) == (["m"], [])


@pytest.mark.parametrize("text", ["", "  \n", "x" * (MAX_TEXT_CHARS + 1)], ids=["empty", "blank", "long"])
async def test_what_is_no_memory_is_refused(db: TenantStore, text: str) -> None:
    with pytest.raises(BadRowError, match="characters of text"):
        await write_memory(db, a_memory(text=text))


async def test_they_are_listed_newest_first_in_pages(db: TenantStore) -> None:
    await write(db, *(a_memory(f"m{n}", created_at=START + timedelta(seconds=n)) for n in range(5)))
    first = await list_memories(db, EVERYTHING, limit=3)
    rest = await list_memories(db, EVERYTHING, limit=3, cursor=first.next_cursor)
    assert [memory.memory_id for memory in first.items + rest.items] == ["m4", "m3", "m2", "m1", "m0"]
    assert rest.next_cursor is None


async def test_an_expired_memory_is_found_no_more_and_then_deleted(db: TenantStore, clock: FrozenClock) -> None:
    await write(db, a_memory("old", expires_at=START + timedelta(days=1)), a_memory("new"))
    assert set(await recalled(db, "well")) == {"old", "new"}
    clock.advance(2 * 86_400)
    assert await recalled(db, "well") == ["new"]
    assert [memory.memory_id for memory in (await list_memories(db, EVERYTHING)).items] == ["new"]
    bites = [bite async for bite in trim_memories(db, RetentionRules())]
    assert [(bite.table, bite.rows) for bite in bites] == [("memories", 1)]


@pytest.mark.parametrize("session", ["s", "a:b", "9:9", "", ":"])
def test_an_id_says_the_step_that_a_memory_was_kept_in(session: str) -> None:
    memory_id = memory_id_of(SessionId(session), 7, "call " * 1_000)
    assert len(memory_id) <= len(session) + 64
    assert memory_id == memory_id_of(SessionId(session), 7, "call " * 1_000)
    assert memory_id != memory_id_of(SessionId(session), 7, "another \ud800/..")
    assert iteration_of(a_memory(memory_id, session_id=session)) == 7


@pytest.mark.parametrize("memory_id", ["m", "s", "s:", "s:x:1", "s:-1:x", "s:²:x", "other:3:x"])
def test_an_id_that_was_made_elsewhere_says_nothing(memory_id: str) -> None:
    assert iteration_of(a_memory(memory_id, session_id="s")) is None


# --- found by words ---


GERMAN = "Die Brücke über den Fluß wurde 1887 von Ærø-Baumeistern gebaut."
ENGLISH = "The naïve café owner keeps well_water in the cellar."


@pytest.mark.parametrize("rows", [2, 300])
async def test_words_are_found_in_any_case_with_or_without_accents(db: TenantStore, store: Store, rows: int) -> None:
    await write(db, a_memory("de", GERMAN), a_memory("en", ENGLISH))
    await write(db, *(a_memory(f"m{n}", f"Filling {n}.") for n in range(rows)))
    if rows > 2:
        await keep_house(store)  # now the index holds them
    for question in ("Brücke", "brucke", "BRÜCKE fluss", "1887", "baumeistern"):
        assert await recalled(db, question) == ["de"], question
    for question in ("naive", "Café", "cafe?", "well", "water"):
        assert await recalled(db, question) == ["en"], question
    assert await recalled(db, "run wells") == []  # words are whole


async def test_rows_that_came_after_the_index_was_built_are_found_too(db: TenantStore, store: Store) -> None:
    await write(db, *(a_memory(f"m{n}", f"Filling {n}.") for n in range(50)))
    await keep_house(store)
    await write(db, a_memory("late", "A late heron."))
    assert await recalled(db, "heron") == ["late"]
    assert await recalled(db, "filling", limit=100) != []


async def test_the_rarest_word_counts_most(db: TenantStore) -> None:
    await write(db, *(a_memory(f"m{n}", "common words here") for n in range(20)), a_memory("x", "common heron here"))
    assert (await recalled(db, "common heron"))[0] == "x"


async def test_what_holds_the_words_is_found_in_pages_best_first(db: TenantStore) -> None:
    await write(db, *(a_memory(f"m{n}", "A heron.", created_at=START + timedelta(seconds=n)) for n in range(5)))
    await write(db, a_memory("best", "Heron heron."), a_memory("none", "A well."))
    found, cursor, more = [], None, True
    while more:
        page = await find_memories(db, "HERON?", EVERYTHING, limit=2, cursor=cursor)
        assert len(page.items) <= 2
        found += [memory.memory_id for memory in page.items]
        cursor, more = page.next_cursor, page.next_cursor is not None
    assert found == ["best", "m4", "m3", "m2", "m1", "m0"]
    assert (await find_memories(db, "?!", EVERYTHING)).items == ()
    for cursor in ("x", (await list_memories(db, EVERYTHING, limit=1)).next_cursor):
        with pytest.raises(BadFilterError):
            await find_memories(db, "heron", EVERYTHING, cursor=cursor)


HOSTILE = [
    "",
    "   ",
    '"',
    '"well',
    "'",
    "' or 1=1 --",
    "'; DROP TABLE memories; --",
    "text:well AND (NOT tenant:main)",
    "well~2 +deep -shallow ^5",
    "((((((((",
    "*?[]{}\\/",
    "the and of a",
    "\x00\x01",
    "\ud800 well",
    "\u202e\u200b\ufeff",
    "日本語 テキスト 😀",
    "a" * 10_000,
    "well " * 2_000,
    " ".join(f"word{n}" for n in range(2_000)),
    "é" * 10_000,
    '{"match": {"query": "well", "column": "text"}}',
    "%00%27<script>",
]


async def test_no_question_is_a_query(db: TenantStore, store: Store) -> None:
    """S24, S26: whatever a question holds, it is answered soon and never an error."""
    other = store.tenant(TenantId("other"))
    await write(db, *(a_memory(f"m{n}", f"The well number {n} is deep and shallow, or not.") for n in range(300)))
    await write(other, a_memory("theirs", "well deep shallow drop table or and not the of a"))
    await keep_house(store)
    await recalled(db, "warm")
    for question in HOSTILE:
        began = time.perf_counter()
        found = await recalled(db, question)
        took = time.perf_counter() - began
        assert "theirs" not in found
        # 200 ms is promised; a machine that does other work beside gets more
        assert took < 1.0, (question[:40], took)
    assert await recalled(db, "' or 1=1 --") != [] or await recalled(db, "1=1") == []


# --- who sees what ---


@pytest.mark.parametrize("indexed", [False, True])
async def test_the_same_text_in_two_tenants_is_recalled_by_its_own(
    db: TenantStore, store: Store, indexed: bool
) -> None:
    """S41: the neighbour's rows neither show nor take a place."""
    other = store.tenant(TenantId("other"))
    vector = MemoryVector("m", (1.0, 0.0))
    for n in range(30):
        await write_memory(other, a_memory(f"o{n}", "heron heron heron"), vector)
    await write_memory(db, a_memory("mine", "A heron among other words, further away."), MemoryVector("m", (0.6, 0.8)))
    if indexed:
        await keep_house(store)
    assert await recalled(db, "heron", limit=2) == ["mine"]
    assert await recalled(db, "heron", vector=vector, limit=2) == ["mine"]
    assert len(await recalled(other, "heron", vector=vector, limit=5)) == 5
    assert await delete_memories(db, ids=["o1"]) == 0


NAMES = st.sampled_from(["", "a", "b", "' or 1=1", "A", "ä", "a%"])
BOUND = st.tuples(NAMES, NAMES, NAMES)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(BOUND, min_size=1, max_size=6), place=BOUND, kinds=st.sets(st.sampled_from(list(MemoryKind))))
async def test_what_is_recalled_is_what_a_python_filter_lets_through(
    db: TenantStore, rows: list[tuple[str, str, str]], place: tuple[str, str, str], kinds: set[MemoryKind]
) -> None:
    """The law of scopes, by words, by vector and in a list."""
    if (await list_memories(db, EVERYTHING, limit=1)).items:
        await memories_of(db).delete(Allowed().condition() | ~Allowed().condition())
    vector = MemoryVector("m", (1.0, 2.0))
    written = [
        a_memory(f"m{n}", agent_id=agent, user_id=user, conversation_id=thread, kind=list(MemoryKind)[n % 3])
        for n, (agent, user, thread) in enumerate(rows)
    ]
    for memory in written:
        await write_memory(db, memory, vector)
    allowed = Allowed(*place)
    wanted = Wanted(allowed, kinds=tuple(sorted(kinds)))
    seen = {
        str(memory.memory_id)
        for memory in written
        if all(bound in ("", own) for bound, own in zip(_bound(memory), place, strict=True))
        and (not kinds or memory.kind in kinds)
    }
    assert {str(m.memory_id) for m in written if allowed.sees(m) and (not kinds or m.kind in kinds)} == seen
    assert set(await recalled(db, "well", wanted, limit=100)) == seen
    assert set(await recalled(db, "nothing alike", wanted, vector=vector, limit=100)) == seen
    assert {str(memory.memory_id) for memory in (await list_memories(db, wanted)).items} == seen


def _bound(memory: Memory) -> Sequence[str]:
    return memory.agent_id, memory.user_id, memory.conversation_id


# --- found by vectors ---


async def test_a_near_vector_is_found_without_a_common_word(db: TenantStore) -> None:
    await write_memory(db, a_memory("near", "Automobiles rust."), MemoryVector("m", (1.0, 0.1, 0.0)))
    await write_memory(db, a_memory("far", "Herons fish."), MemoryVector("m", (0.0, 0.1, 1.0)))
    assert await recalled(db, "cars", vector=MemoryVector("m", (1.0, 0.0, 0.0))) == ["near", "far"]
    # both halves count: the word outweighs what is nearer by little
    assert (await recalled(db, "herons", vector=MemoryVector("m", (0.9, 0.0, 1.0))))[0] == "far"


async def test_vectors_of_another_model_or_length_are_not_compared(db: TenantStore) -> None:
    await write_memory(db, a_memory("other model", "One."), MemoryVector("x", (1.0, 0.0)))
    await write_memory(db, a_memory("other length", "Two."), MemoryVector("m", (1.0, 0.0, 0.0)))
    await write_memory(db, a_memory("none", "Three."))
    await write_memory(db, a_memory("same", "Four."), MemoryVector("m", (0.0, 1.0)))
    vector = MemoryVector("m", (1.0, 0.0))
    assert await recalled(db, "nothing", vector=vector) == ["same"]
    # their words are found all the same
    assert set(await recalled(db, "one two three", vector=vector)) == {"same", "other model", "other length", "none"}


@pytest.mark.parametrize("length", [1, 256, 257, 1536, 3072])
async def test_vectors_of_any_length_have_a_place(db: TenantStore, length: int) -> None:
    vector = MemoryVector("m", (*([0.0] * (length - 1)), 1.0))
    await write_memory(db, a_memory(), vector)
    assert await recalled(db, "nothing", vector=vector) == ["m"]


async def test_a_vector_that_fits_nowhere_leaves_the_words(db: TenantStore) -> None:
    vector = MemoryVector("m", (1.0,) * 3_073)
    await write_memory(db, a_memory(), vector)
    assert await recalled(db, "well", vector=vector) == ["m"]


# --- deleted ---


async def test_they_are_deleted_by_what_they_are_about_and_from(db: TenantStore) -> None:
    await write(
        db,
        a_memory("id"),
        a_memory("subject", subject="mia's car"),
        a_memory("user", user_id="mia"),
        a_memory("session", session_id="s2"),
        a_memory("source", source='a "b".md'),
        a_memory("made from it", taint=["web", 'a "b".md']),
        a_memory("kept", taint=["a"]),
    )
    assert await delete_memories(db, ids=["id", "none"]) == 1
    assert await delete_memories(db, subject="mia's car") == 1
    assert await delete_memories(db, user_id="mia") == 1
    assert await delete_memories(db, session_id="s2") == 1
    assert await delete_memories(db, source='a "b".md') == 2
    assert [memory.memory_id for memory in (await list_memories(db, EVERYTHING)).items] == ["kept"]
    with pytest.raises(ValueError, match="forget everything"):
        await delete_memories(db)


NAMED = st.fixed_dictionaries(
    {},
    optional={name: st.sampled_from(["a", "b", "' or 1=1"]) for name in ("user_id", "agent_id", "conversation_id")}
    | {name: st.sampled_from(["s", "a"]) for name in ("session_id", "subject", "source")},
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(NAMED, max_size=5), named=NAMED.filter(bool))
async def test_a_name_deletes_what_the_list_shows_for_it(
    db: TenantStore, rows: list[dict[str, Any]], named: dict[str, Any]
) -> None:
    if (await list_memories(db, EVERYTHING, limit=1)).items:
        await memories_of(db).delete(Allowed().condition() | ~Allowed().condition())
    await write(db, *(a_memory(f"m{n}", **row) for n, row in enumerate(rows)))
    shown = {memory.memory_id for memory in (await list_memories(db, Wanted(None, **named))).items}
    assert shown == {f"m{n}" for n, row in enumerate(rows) if {"session_id": "s", **row}.items() >= named.items()}
    assert await delete_memories(db, **named) == len(shown)
    left = {memory.memory_id for memory in (await list_memories(db, EVERYTHING)).items}
    assert left == {f"m{n}" for n in range(len(rows))} - shown


async def test_nobody_deletes_what_he_may_not_see(db: TenantStore) -> None:
    await write(db, a_memory("a", source="x", agent_id="a"), a_memory("b", source="x", agent_id="b"))
    assert await delete_memories(db, source="x", allowed=Allowed(agent_id="a")) == 1
    assert [memory.memory_id for memory in (await list_memories(db, EVERYTHING)).items] == ["b"]


@pytest.mark.parametrize("compacted_before", [False, True])
async def test_what_is_deleted_is_off_the_disk(db: TenantStore, store: Store, compacted_before: bool) -> None:
    """One row of many: the engine alone would keep the fragment, and the word in the index."""
    for start in range(0, 60, 20):
        await write(db, *(a_memory(f"m{n}", f"Filling {n}.") for n in range(start, start + 20)))
    await write(db, a_memory("secret", f"It is {SECRET}.", subject=f"about {SECRET}", data={SECRET: 1}, source=SECRET))
    if compacted_before:
        await keep_house(store)
    assert on_disk(store, SECRET)
    indexes = _indexes(store)
    assert await delete_memories(db, subject=f"about {SECRET}") == 1
    assert await recalled(db, SECRET) == []
    assert on_disk(store, SECRET)
    await keep_house(store)
    assert on_disk(store, SECRET) == []
    # the words of an index are packed, so that a look at the bytes proves nothing: none of the old ones is left
    assert _indexes(store)
    assert not _indexes(store) & indexes
    assert await recalled(db, "filling", limit=100) != []
    assert len((await list_memories(db, EVERYTHING)).items) == 60


def _indexes(store: Store) -> set[str]:
    assert store.options.folder is not None
    return {path.name for path in (store.options.folder / "memories.lance" / "_indices").iterdir()}


async def test_a_whole_fragment_that_goes_takes_its_words_along(db: TenantStore, store: Store) -> None:
    """The engine forgets a fragment without rows, and the sign of a deletion with it; its words are in the index."""
    await write(db, a_memory("secret", f"It is {SECRET}."))
    await keep_house(store)
    indexes = _indexes(store)
    await delete_memories(db, ids=["secret"])
    await keep_house(store)
    assert on_disk(store, SECRET) == []
    assert not _indexes(store) & indexes


async def test_upkeep_erases_within_its_stated_time(db: TenantStore, store: Store, clock: FrozenClock) -> None:
    """A worker's upkeep, not forced: a deletion is a reason for a turn, and old versions are one for the next."""
    upkeep = Upkeep(store, UpkeepRules(keep=timedelta(milliseconds=1)), Told())
    await write(db, *(a_memory(f"m{n}") for n in range(5)), a_memory("secret", f"It is {SECRET}."))
    await delete_memories(db, ids=["secret"])
    for _ in range(3):
        await upkeep.once()
        clock.advance(20.0)
    assert on_disk(store, SECRET) == []
    version = await store.tables["memories"].version()
    for _ in range(3):
        clock.advance(20.0)
        assert "memories" not in await upkeep.once()  # and then there is nothing left to do
    assert await store.tables["memories"].version() == version


class PowerFailure(BaseException):
    """The process ends here."""


async def test_a_crash_in_the_middle_of_erasing_is_made_up_for(
    options: StoreOptions, ids: CountingIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FrozenClock()
    store = await open_store(options, clock=clock, ids=ids)
    db = store.tenant()
    await write(db, *(a_memory(f"m{n}") for n in range(5)), a_memory("secret", f"It is {SECRET}."))
    await delete_memories(db, ids=["secret"])
    erasure = Erasure(store.tables[MEMORIES.name], store.options.folder)

    async def torn() -> Sequence[object]:  # the index is new, the rows are not yet
        raise PowerFailure

    monkeypatch.setattr(erasure, "_torn", torn)
    with pytest.raises(PowerFailure):
        await erasure.erase()
    await store.close()
    store = await open_store(options, clock=clock, ids=ids)
    assert on_disk(store, SECRET)
    await keep_house(store)
    assert on_disk(store, SECRET) == []
    assert len((await list_memories(store.tenant(), EVERYTHING)).items) == 5
    await store.close()


async def test_writers_readers_and_erasing_side_by_side(options: StoreOptions) -> None:
    """Two stores on one folder stand for two processes: nothing is lost, nothing comes back."""
    clock = FrozenClock()
    one = await open_store(options, clock=clock, ids=CountingIds("a"))
    two = await open_store(options, clock=clock, ids=CountingIds("b"))

    async def writing(store: Store, name: str) -> None:
        for n in range(8):
            await write_memory(store.tenant(), a_memory(f"{name}{n}", f"heron {name} {n}"))
            await write_memory(store.tenant(), a_memory(f"{name}x{n}", SECRET))
            assert f"{name}{n}" in await recalled(store.tenant(), f"heron {n}", limit=100)
            await delete_memories(store.tenant(), ids=[f"{name}x{n}"])

    async def erasing() -> None:
        upkeep = Upkeep(one, UpkeepRules(), Told())
        for _ in range(4):
            await upkeep.once(force=True)

    await asyncio.gather(writing(one, "a"), writing(two, "b"), erasing())
    await keep_house(one)
    assert on_disk(one, SECRET) == []
    found = {str(memory.memory_id) for memory in (await list_memories(two.tenant(), EVERYTHING)).items}
    assert found == {f"{name}{n}" for name in "ab" for n in range(8)}
    assert len(await recalled(two.tenant(), "heron", limit=100)) == 16
    await one.close()
    await two.close()
