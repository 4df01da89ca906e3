"""The addresses of a name, from the operating system."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence


class SystemResolver:
    """Asks as every program on this machine does: /etc/hosts first, then DNS."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses in the order of preference. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # A link-local address keeps its zone ("fe80::1%2"), by which it is refused.
        return list(dict.fromkeys(str(address[0]) for *_, address in found))
