"""`research` with `use_tools` on a real worker: the offline model calls granted tools; a replay finds them again."""

from __future__ import annotations

from pathlib import Path

from monikers.catalogue import Catalogue
from monikers.research import RESEARCH
from runtime.calls import RecordKind
from runtime.replay import replay_session
from runtime.testing import FakeFiles
from runtime.tools.deployment import tool_offer
from store.agent_state import SessionStatus
from store.ids import SessionId
from store.records import list_records
from tests.runtime.kit import workshop
from tests.runtime.tools.stepkit import tools_file

CONFIG = {
    "question": "search history: how deep are the wells?",
    "documents": [{"title": "Wells", "text": "Wells are thirty metres deep. They hold water all year."}],
}


async def test_it_uses_what_is_granted_to_it_and_is_replayed_the_same(tmp_path: Path) -> None:
    files = tools_file(tmp_path, '[grants]\nresearch = ["search_history", "clock"]\n')
    async with workshop(tmp_path, RESEARCH, tools=files) as shop:
        await shop.create("research", config={**CONFIG, "use_tools": True})
        await shop.create("research", "plain", config=CONFIG)
        await shop.until(SessionStatus.DONE)
        await shop.until(SessionStatus.DONE, "plain")
        rows = await list_records(shop.db, SessionId("s"), 5, since_iteration=0)
        made = [row for row in rows if row.kind == RecordKind.TOOL]
        assert [(row.key, row.usage["ok"]) for row in made] == [("tool:1:search_history", True)]
        told = await shop.steps()
        assert told[1].data["findings"] == (await shop.steps("plain"))[1].data["findings"]
        assert "thirty metres deep" in (told[-1].text or "")
        rows = await list_records(shop.db, SessionId("plain"), 5, since_iteration=0)
        assert {row.kind for row in rows} == {RecordKind.MODEL}, "without the wish it calls nothing"
        offer = tool_offer(shop.db, Path(files), tmp_path)
        found = await replay_session(shop.db, Catalogue.of(RESEARCH), FakeFiles(), SessionId("s"), tools=offer)
        assert (found.difference, found.steps) == (None, len(told))
