"""An object store for tests: a moto server as a child process, from an environment of its own (requirements-s3.txt)."""

from __future__ import annotations

import itertools
import os
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from tests.faultproxy import HOST

ROOT = Path(__file__).resolve().parent.parent
SERVER = ROOT / ".setup" / "s3" / "bin" / "moto_server"
#: moto reads which service is meant from the signature's scope and checks nothing else of it
_SCOPE = "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"


@dataclass(frozen=True)
class ObjectStore:
    """A running object store."""

    url: str
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def bucket(self) -> str:
        """A new bucket; its address as `STEPWELL_DATA`."""
        name = f"bucket-{next(self._numbers)}"
        requests.put(f"{self.url}/{name}", headers={"Authorization": _SCOPE}, timeout=30).raise_for_status()
        return f"s3://{name}/stepwell"

    def names(self, url: str, prefix: str = "") -> set[str]:
        """The objects of a store that begin with `prefix`, whole names."""
        bucket, _, folder = url.removeprefix("s3://").partition("/")
        found, more = set(), ""
        while True:
            query = {"list-type": "2", "prefix": f"{folder}/{prefix}", **({"continuation-token": more} if more else {})}
            text = self._get(bucket, query)
            found |= set(re.findall("<Key>([^<]+)</Key>", text.decode()))
            following = re.search("<NextContinuationToken>([^<]+)<", text.decode())
            if following is None:
                return found
            more = following[1]

    def holding(self, url: str, text: str) -> list[str]:
        """The objects of a store in whose bytes a text stands."""
        bucket = url.removeprefix("s3://").partition("/")[0]
        return sorted(name for name in self.names(url) if text.encode() in self._get(f"{bucket}/{name}"))

    def _get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        answer = requests.get(f"{self.url}/{path}", params=query, headers={"Authorization": _SCOPE}, timeout=30)
        answer.raise_for_status()
        return answer.content


def aws(endpoint: str) -> dict[str, str]:
    """The environment that leads to the object store at `endpoint`."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A running server; its tests are skipped, aloud, where it is not installed, and fail in continuous integration."""
    if not SERVER.exists():
        message = f"no object store to test with: {SERVER} is missing; `make test` installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [SERVER, "-H", HOST, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        store = ObjectStore(f"http://{HOST}:{port}")
        _wait(store.url, process)
        yield store
    finally:
        process.kill()
        process.wait()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    adapter = requests.adapters.HTTPAdapter(max_retries=requests.adapters.Retry(connect=60, backoff_factor=0.05))
    with requests.Session() as session:
        session.mount("http://", adapter)
        session.get(f"{url}/moto-api/", timeout=60)
    assert process.poll() is None, "the object store ended while it started"
