"""Connections, pauses and files with asyncio. The blocking client has a module of its own with the same names."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Callable, Optional, TypeVar

from estimand._address import Address
from estimand._sync.connection import is_quiet

T = TypeVar("T")

pause = asyncio.sleep


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Calls what waits for a disk."""
    return await asyncio.to_thread(call, *arguments)


class AsyncPauses:
    """Pauses that an end cuts short. The task that pauses is cancelled, so this only waits."""

    def __init__(self) -> None:
        self.is_over = False

    def end(self) -> None:
        """No pause lasts from now on."""
        self.is_over = True

    async def pause(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)


class AsyncConnection:
    """A connection to a service. `OSError` and `TimeoutError` say that it does not go on."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @staticmethod
    async def open(address: Address, tls: Optional[ssl.SSLContext], timeout: float) -> AsyncConnection:
        """Connects."""
        if address.socket:
            return AsyncConnection(*await _within(asyncio.open_unix_connection(address.socket), timeout))
        host = address.host
        opening = asyncio.open_connection(host, address.port, ssl=tls, server_hostname=host if tls else None)
        return AsyncConnection(*await _within(opening, timeout))

    async def send(self, data: bytes, timeout: float) -> None:
        """Sends all of it."""
        self._writer.write(data)
        await _within(self._writer.drain(), timeout)

    async def receive(self, timeout: float) -> bytes:
        """What came; nothing at the end of the connection."""
        data: bytes = await _within(self._reader.read(256 * 1024), timeout)
        return data

    def is_quiet(self) -> bool:
        """True while it is open and nothing came that nobody asked for."""
        stream = self._writer.get_extra_info("socket")
        return not self._reader.at_eof() and not self._writer.is_closing() and is_quiet(stream)

    def interrupt(self) -> None:
        """Ends it, whoever waits for it."""
        self.close()

    def close(self) -> None:
        """Ends it at once."""
        self._writer.transport.abort()


async def _within(awaitable: Any, timeout: float) -> Any:
    try:
        return await asyncio.wait_for(awaitable, timeout)
    except asyncio.TimeoutError:
        # Its name has two meanings before Python 3.11.
        raise TimeoutError("no answer in time") from None
