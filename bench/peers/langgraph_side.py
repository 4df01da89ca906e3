"""LangGraph with its SqliteSaver, which itself turns WAL on. A step is a superstep, stored as a checkpoint.

With durability "sync" a checkpoint is stored before the next superstep, as Stepwell promises. With "async", LangGraph's
own default, it is stored while the next one runs: a killed process can lose steps that were seen. It has no queue.
"""

from __future__ import annotations

import operator
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from bench.machine import bytes_in, summary_ms
from bench.peers.work import Answer, Figure, Work, answer_one, growth

_DURABILITY = os.environ.get("BENCH_LANGGRAPH_DURABILITY", "sync")
#: how many sessions run at once; the others wait for their turn
_THREADS = int(os.environ.get("BENCH_LANGGRAPH_THREADS", "500"))


class State(TypedDict):
    """A step count, something small, and a log that may grow."""

    count: int
    text: str
    log: Annotated[list[str], operator.add]


@contextmanager
def _graph(folder: Path, steps: int, grow_bytes: int = 0) -> Iterator[Any]:
    """A graph of one node that runs `steps` times, on the database in `folder`."""

    def node(state: State) -> dict[str, Any]:
        log = [growth(state["count"], grow_bytes)] if grow_bytes else []
        return {"count": state["count"] + 1, "text": "hello from the well", "log": log}

    def following(state: State) -> str:
        return END if state["count"] >= steps else "node"

    with SqliteSaver.from_conn_string(str(folder / "langgraph.sqlite")) as saver:
        saver.setup()
        graph = StateGraph(State)
        graph.add_node("node", node)
        graph.add_edge(START, "node")
        graph.add_conditional_edges("node", following, ["node", END])
        yield graph.compile(checkpointer=saver)


def _run(graph: Any, thread: int, steps: int) -> None:
    config = {"configurable": {"thread_id": str(thread)}, "recursion_limit": steps + 10}
    graph.invoke({"count": 0, "text": "", "log": []}, config, durability=_DURABILITY)


def steps(work: Work) -> Answer:
    """Each session that runs has a thread; the saver lets one of them write at a time."""
    with _graph(work.folder, work.steps) as graph, ThreadPoolExecutor(min(_THREADS, work.sessions)) as pool:
        began = time.perf_counter()
        for ended in [pool.submit(_run, graph, number, work.steps) for number in range(work.sessions)]:
            ended.result()
        took = time.perf_counter() - began
    return {"value": work.sessions * work.steps / took, "seconds": took}


def disk(work: Work) -> Answer:
    """One thread whose state grows by a piece a step."""
    with _graph(work.folder, work.grow_steps, work.grow_bytes) as graph:
        _run(graph, 0, work.grow_steps)
        largest = bytes_in(work.folder)
    return {"value": bytes_in(work.folder), "largest": largest}


def history(work: Work) -> Answer:
    """The last 20 states of a thread."""
    config = {"configurable": {"thread_id": "0"}}
    fresh = not (work.folder / "langgraph.sqlite").exists()
    taken = []
    with _graph(work.folder, work.history_steps) as graph:
        if fresh:
            _run(graph, 0, work.history_steps)
        for _ in range(work.history_reads):
            began = time.perf_counter()
            found = list(graph.get_state_history(config, limit=20))
            taken.append(time.perf_counter() - began)
            if len(found) != 20:
                raise RuntimeError(f"{len(found)} states were found, not 20")
    return {"value": summary_ms(taken)["p50_ms"], **summary_ms(taken)}


if __name__ == "__main__":
    answer_one({Figure.STEPS: steps, Figure.DISK: disk, Figure.HISTORY: history})
