"""A pool with the servers that it asks, for the tests of everything that goes through it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from runtime.llm.modelsread import read_models
from runtime.llm.pool import ModelPool
from runtime.llm.port import Attempt, ChatMessage, ChatRequest
from runtime.testing import FakeClock, FakeLog
from tests.llmserver import LlmServer, llm_server

ASKED = ChatRequest(purpose="joke.tell", messages=(ChatMessage(role="user", content="Tell one."),))
KEYS = {"KEY_A": "sk-canary-key-a-000000-aaaa", "KEY_B": "sk-canary-key-b-000000-bbbb"}

FILE = """
[providers.cloud]
base_url = "CLOUD_URL"
keys = [{ env = "KEY_A" }, { env = "KEY_B" }]

[providers.house]
base_url = "HOUSE_URL"
local = true

[models.large]
provider = "cloud"
model = "large-1"
context = 100_000
prices = { input = 2, output = 10 }
abilities = ["tools", "json_schema", "streaming"]

[models.medium]
provider = "cloud"
model = "medium-1"
context = 50_000
abilities = ["tools", "json_object", "streaming"]

[models.tiny]
provider = "house"
model = "tiny-1"
prices = { input = 0, output = 0 }
abilities = ["streaming"]

[models.vectors]
provider = "house"
model = "embed-1"
abilities = ["embeddings"]
dimensions = 2
prices = { input = 0.02 }
"""


class NoChance:
    """Jitter that is always the whole limit."""

    def uniform(self, low: float, high: float) -> float:
        return high


@dataclass
class Kit:
    """A pool, its two servers, its time and its log."""

    pool: ModelPool
    cloud: LlmServer
    house: LlmServer
    clock: FakeClock = field(default_factory=FakeClock)
    log: FakeLog = field(default_factory=FakeLog)

    def logged(self, action: str) -> int:
        """How often the log has this action."""
        return sum(fields.get("action") == action for _, _, fields in self.log.lines)


@asynccontextmanager
async def kit(folder: Path, more: str = "", file: str = FILE) -> AsyncIterator[Kit]:
    """A pool of two models at `cloud`, which has two keys, and one at `house`; `more` is added to its models.toml."""
    async with AsyncExitStack() as stack:
        cloud, house = [await stack.enter_async_context(llm_server()) for _ in range(2)]
        path = folder / "models.toml"
        path.write_text(file.replace("CLOUD_URL", cloud.url).replace("HOUSE_URL", house.url) + more)
        clock, log = FakeClock(), FakeLog()
        pool = ModelPool(read_models(path, KEYS), clock=clock, chance=NoChance(), log=log)
        stack.push_async_callback(pool.aclose)
        yield Kit(pool, cloud, house, clock, log)


def ways(attempts: tuple[Attempt, ...]) -> list[tuple[str, str | None]]:
    """The models that were tried, and how each try ended."""
    return [(attempt.model, attempt.kind) for attempt in attempts]
