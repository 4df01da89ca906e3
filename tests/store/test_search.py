"""One search over messages, steps and memories: what is found, in which order, and what is never shown."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import paging
from store import search as searching
from store.agent_state import upsert_agent_state
from store.agent_steps import append_agent_step, journal_of, raise_fences
from store.database import Store, TenantStore
from store.errors import BadFilterError
from store.fulltext import MAX_WORDS, SNIPPET_CHARS, folded, snippet_of, words_of
from store.ids import ConversationId, TenantId
from store.lanes import LaneId
from store.memories import memories_of
from store.messages import messages_of, post_message
from store.search import DEPTH, Found, SearchKind, Sought, search
from store.testing import START, FrozenClock
from store.upkeep import Upkeep, UpkeepRules
from tests.store.rows import a_memory, a_message, a_state, a_step
from tests.store.test_memories import HOSTILE, Told

THREAD = ConversationId("c1")


async def found(db: TenantStore, question: str, **where: object) -> list[tuple[str, str]]:
    page = await search(db, Sought(question, **where), limit=100)  # type: ignore[arg-type]
    assert page.incomplete == ()
    return [(one.kind.value, one.id) for one in page.items]


async def keep_house(store: Store) -> None:
    await Upkeep(store, UpkeepRules(search_rows=1, index_rows=1), Told()).once(force=True)


@pytest.mark.parametrize("indexed", [False, True])
async def test_everything_that_was_said_done_and_remembered_is_found(
    db: TenantStore, store: Store, indexed: bool
) -> None:
    await post_message(db, THREAD, text="Where does the heron fish?")
    await append_agent_step(db, a_step("s", 0, text="The heron fishes in the well."))
    await append_agent_step(db, a_step("s", 1, text="Nothing of it."))
    await memories_of(db).insert_missing([a_memory("m", "Herons: see heron.", session_id="s")])
    if indexed:
        await keep_house(store)
        await append_agent_step(db, a_step("s", 2, text="A late heron."))
    expected = {("messages", "id-000001"), ("steps", "s:0"), ("memories", "m")}
    expected |= {("steps", "s:2")} if indexed else set()
    assert set(await found(db, "HERON")) == expected
    assert await found(db, "heron", kinds=(SearchKind.MEMORIES,)) == [("memories", "m")]
    assert await found(db, "otter") == []


async def test_a_result_says_where_it_is_and_marks_its_words(db: TenantStore) -> None:
    text = "x " * 300 + "the Fluß is <b>deep</b> & wide"
    await append_agent_step(db, a_step("s", 7, text=text))
    (one,) = (await search(db, Sought("fluss deep"))).items
    assert (one.kind, one.session_id, one.iteration, one.agent_id) == (SearchKind.STEPS, "s", 7, "agent")
    assert [one.snippet[start:end] for start, end in one.matches] == ["Fluß", "deep"]
    assert len(one.snippet) <= SNIPPET_CHARS
    assert "<b>" in one.snippet


async def test_it_is_looked_for_where_it_is_asked_for(db: TenantStore) -> None:
    await upsert_agent_state(db, [a_state("s1", conversation_id=THREAD), a_state("s2")])
    await append_agent_step(db, a_step("s1", 0, text="heron", agent_id="a"))
    await append_agent_step(db, a_step("s2", 0, text="heron", agent_id="b"))
    await messages_of(db).append(a_message("c2", a_step("s2", 3, text="heron")))
    memories = [a_memory("m1", "heron", conversation_id="c1"), a_memory("m2", "heron", session_id="s2", agent_id="b")]
    await memories_of(db).insert_missing(memories)
    assert set(await found(db, "heron", conversation_id="c1")) == {("steps", "s1:0"), ("memories", "m1")}
    assert set(await found(db, "heron", session_id="s2")) == {
        ("steps", "s2:0"),
        ("messages", "s2:3"),
        ("memories", "m2"),
    }
    assert set(await found(db, "heron", agent_id="b")) == {("steps", "s2:0"), ("memories", "m2")}
    assert await found(db, "heron", conversation_id="' or 1=1 --") == []


async def test_a_step_that_was_said_is_there_once_as_the_message(db: TenantStore) -> None:
    step = a_step("s", 0, text="heron")
    await append_agent_step(db, step)
    await messages_of(db).append(a_message(THREAD, step))
    assert await found(db, "heron") == [("messages", "s:0")]
    assert await found(db, "heron", kinds=(SearchKind.STEPS,)) == [("steps", "s:0")]


async def test_what_came_too_late_is_not_shown(db: TenantStore) -> None:
    """A stale owner's row is not found, neither under its own id nor under that of the step that counts."""
    lane = LaneId("echo/0")
    await append_agent_step(db, a_step("s", 0, text="otter", lane=lane, epoch=1))
    await raise_fences(db, [lane], 2)
    await append_agent_step(db, a_step("s", 1, text="heron of the stale owner", lane=lane, epoch=1))
    await append_agent_step(db, a_step("s", 1, text="newt", lane=lane, epoch=2))
    assert await found(db, "heron stale") == []
    assert await found(db, "otter newt") == [("steps", "s:1"), ("steps", "s:0")]


async def test_other_tenants_are_not_searched(db: TenantStore, store: Store) -> None:
    other = store.tenant(TenantId("other"))
    await append_agent_step(other, a_step("s", 0, text="heron"))
    await post_message(other, THREAD, text="heron")
    await memories_of(other).insert_missing([a_memory("m", "heron")])
    assert await found(db, "heron") == []
    assert len(await found(other, "heron")) == 3
    # nor do their better rows take the places of ours
    await journal_of(other).append_all([a_step("t", n, text="heron heron") for n in range(60)])
    await append_agent_step(db, a_step("mine", 0, text="A heron among other words of a longer text."))
    assert [one.id for one in (await search(db, Sought("heron"), limit=1)).items] == ["mine:0"]


async def test_an_expired_memory_is_not_found(db: TenantStore, clock: FrozenClock) -> None:
    await memories_of(db).insert_missing([a_memory("m", "heron", expires_at=START + timedelta(seconds=1))])
    clock.advance(2)
    assert await found(db, "heron") == []


async def test_it_comes_in_pages_best_first_then_newest(db: TenantStore) -> None:
    await journal_of(db).append_all([a_step("s", n, text="heron") for n in range(25)])
    await append_agent_step(db, a_step("t", 0, text="heron heron heron"))
    seen: list[Found] = []
    cursor = None
    for _ in range(3):
        page = await search(db, Sought("heron"), limit=10, cursor=cursor)
        seen += page.items
        cursor = page.next_cursor
    assert cursor is None
    assert [one.id for one in seen] == ["t:0", *(f"s:{n}" for n in reversed(range(25)))]
    for wrong in ("x", "Wy0xXQ"):  # the second one says -1
        with pytest.raises(BadFilterError):
            await search(db, Sought("heron"), cursor=wrong)
    with pytest.raises(BadFilterError):
        await search(db, Sought("heron"), limit=0)


async def test_paging_has_an_end(db: TenantStore) -> None:
    await journal_of(db).append_all([a_step("s", n, text="heron") for n in range(DEPTH + 50)])
    last = await search(db, Sought("heron"), limit=100, cursor=_cursor(DEPTH - 50))
    assert (len(last.items), last.next_cursor) == (50, None)
    assert (await search(db, Sought("heron"), cursor=_cursor(DEPTH))).items == ()


def _cursor(start: int) -> str:
    return paging.encode_cursor((start,))


async def test_no_question_is_a_query(db: TenantStore, store: Store) -> None:
    await journal_of(db).append_all([a_step("s", n, text=f"The well {n} is deep and not dry.") for n in range(300)])
    await keep_house(store)
    for question in HOSTILE:
        for one in (await search(db, Sought(question))).items:
            assert one.matches


async def test_a_table_that_takes_too_long_is_named(db: TenantStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await memories_of(db).insert_missing([a_memory("m", "heron")])

    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(journal_of(db), "matching", never)
    monkeypatch.setattr(searching, "TABLE_S", 0.5)
    page = await search(db, Sought("heron"))
    assert ([one.id for one in page.items], page.incomplete) == (["m"], (SearchKind.STEPS,))


# --- words and snippets ---


def test_words_are_what_can_be_looked_for() -> None:
    assert words_of("The café, the_well 42!") == ("the", "café", "well", "42")
    assert words_of("a" * 41 + " b") == ("b",)
    assert len(words_of(" ".join(f"w{n}" for n in range(100)))) == MAX_WORDS
    assert folded("Ångström") == folded("ANGSTROM")


@given(st.text(max_size=400), st.text(max_size=40))
def test_a_snippet_is_a_piece_of_the_text_and_its_marks_are_words(text: str, question: str) -> None:
    words = words_of(question)
    snippet = snippet_of(text, words)
    assert snippet.text in text
    at = 0
    for start, end in snippet.matches:
        assert at <= start < end <= len(snippet.text)
        assert folded(snippet.text[start:end]) in {folded(word) for word in words}
        at = end
