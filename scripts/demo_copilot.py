"""Plays a recorded sales call in real time through the whole stack: `python -m scripts.demo_copilot`.

It starts the dashboard with a worker, opens a thread with a copilot session, and posts each segment when it was said.
The offline model answers, whatever the environment configures: the demonstration costs nothing.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import httpx2

from monikers.copilot.agentsets import RecordedTranscript, load_transcript, transcript_names
from monikers.copilot.models import TranscriptSegment

_APP = Path(__file__).resolve().parent.parent / "app.py"
_ADDRESS = re.compile(r"Stepwell is at (http://\S+)")
#: whatever else is set, nobody is asked who wants money
_OFFLINE = {"STEPWELL_MODEL": "offline"}
_PATIENCE_S = 30.0
_LOOK_S = 0.2


@click.command()
@click.option("--transcript", type=click.Choice(transcript_names()), default="sales_call", help="What is played.")
@click.option("--speed", type=click.FloatRange(min=0.01), default=1.0, help="How many times as fast as it was said.")
@click.option("--port", type=int, default=None, help="Port of the dashboard, or the next free one.")
@click.option("--once", is_flag=True, help="Stop everything when the call is over.")
def main(transcript: str, speed: float, port: int | None, *, once: bool) -> None:
    """Play a recorded conversation to a copilot, and show where to watch it."""
    recorded = load_transcript(transcript)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the dashboard ends with this
    with _dashboard(port) as url, httpx2.Client(base_url=url, timeout=_PATIENCE_S) as client:
        conversation_id, session_id = _begin(client, recorded)
        click.echo(f"Watch it live: {url}/copilot/{session_id}")
        play(client, conversation_id, recorded, speed)
        _until_heard(client, session_id)
        click.echo(f"The call is over. Everything that happened: {url}/copilot/{session_id}")
        if not once:
            click.echo("Ctrl-C stops the dashboard.")
            _until_interrupted()


@contextmanager
def _dashboard(port: int | None) -> Iterator[str]:
    """`app.py --with-worker`; gives its address, and ends it."""
    command = [sys.executable, str(_APP), "--with-worker", *([] if port is None else ["--port", str(port)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **_OFFLINE}) as app:
        try:
            yield _address(app)
        finally:
            app.terminate()


def _address(app: subprocess.Popen[str]) -> str:
    for line in app.stdout or ():
        click.echo(line, nl=False)
        if (found := _ADDRESS.search(line)) is not None:
            return found.group(1)
    raise click.ClickException("the dashboard did not start; its log above says why")


def _begin(client: httpx2.Client, recorded: RecordedTranscript) -> tuple[str, str]:
    """A thread and the copilot that listens to it."""
    thread = _posted(client, "/api/conversations", title=recorded.title, tags=["copilot", "demo"])
    created = _posted(
        client,
        "/api/agents",
        moniker="copilot",
        agent_id=f"copilot-{recorded.agent_set}",
        conversation_id=thread["conversation_id"],
        config={
            "agent_set": recorded.agent_set,
            "user_context": recorded.user_context,
            "language_directive": recorded.language_directive,
            "rag_docs": list(recorded.rag_docs),
        },
    )
    return thread["conversation_id"], created["session_id"]


def play(client: httpx2.Client, conversation_id: str, recorded: RecordedTranscript, speed: float) -> None:
    """Post each segment when it was said, `speed` times as fast."""
    began = time.monotonic()
    for segment in recorded.segments:
        time.sleep(max(0.0, began + segment.timestamp / speed - time.monotonic()))
        _posted(client, f"/api/conversations/{conversation_id}/messages", **_body(segment))
        click.echo(f"{segment.timestamp:7.1f} s  {segment.speaker}: {segment.text}")


def _until_heard(client: httpx2.Client, session_id: str) -> None:
    """Return when the copilot has taken up all that was said."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        counts = client.get("/api/queue", params={"session_id": session_id, "limit": 1}).json()["counts"]
        if not counts.get("pending") and not counts.get("claimed"):
            return
        time.sleep(_LOOK_S)


def _body(segment: TranscriptSegment) -> dict[str, Any]:
    return segment.model_dump(include={"speaker", "text", "timestamp", "is_final"})


def _posted(client: httpx2.Client, path: str, **body: Any) -> dict[str, Any]:
    answer = client.post(path, json=body)
    if answer.status_code >= httpx2.codes.BAD_REQUEST:
        raise click.ClickException(f"POST {path}: {answer.status_code} {answer.text}")
    found: dict[str, Any] = answer.json()
    return found


def _until_interrupted() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        click.echo("")


if __name__ == "__main__":
    main()
