"""A served web process for tests: `python -m tests.web.served <folder> <async mode>` prints its port, then serves."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import structlog

from tests.support import eventually
from tests.web.kit import CATALOGUE, MODEL, opener
from web.factory import create_app
from web.ports import free_port
from web.server import serve
from web.settings import AsyncMode, WebSettings

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Served:
    """A running process."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def ready(self) -> bool:
        """Whether it answers; fails at once when it has died."""
        assert self.process.poll() is None, self.log.read_text()
        try:
            return requests.get(f"{self.url}/readyz", timeout=5).ok
        except requests.ConnectionError:
            return False

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(how)
        return self.process.wait(timeout=90)


def start(folder: Path, mode: str, log: Path) -> Served:
    """Start a process and wait until it answers."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.web.served", str(folder), mode],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    process.stdout.close()
    assert line, log.read_text()
    served = Served(process, json.loads(line)["port"], log)
    asyncio.run(eventually(served.ready, 60))
    return served


def main(folder: str, mode: str) -> None:
    """Serve until a signal."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # standard output is closed by `start`
    settings = WebSettings(async_mode=AsyncMode(mode), host=HOST, port=free_port(HOST, 0))
    web = create_app(settings, opener(Path(folder)), CATALOGUE, MODEL)
    print(json.dumps({"port": settings.port}), flush=True)
    serve(web)


def post(served: Served, path: str, body: Any, expect: int = 202) -> Any:
    """POST an object to a running process."""
    answer = requests.post(f"{served.url}{path}", json=body, timeout=30)
    assert answer.status_code == expect, answer.text
    return answer.json()


def get(served: Served, path: str) -> Any:
    """GET from a running process."""
    answer = requests.get(f"{served.url}{path}", timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


if __name__ == "__main__":
    main(*sys.argv[1:])
