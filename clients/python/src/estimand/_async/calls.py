"""The base of all calls: sends a request, and reads its answer as a type."""

from __future__ import annotations

import time
from typing import Any, Callable, Optional, TypeVar

from estimand._async.connection import pause
from estimand._async.transport import AsyncTransport
from estimand._decode import decode, decode_all
from estimand._http import Answer, Request
from estimand.errors import UnavailableError, UnexpectedError, UnreachableError
from estimand.options import BackOff

T = TypeVar("T")

# The pauses of what goes on while a service is away.
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0


class AsyncCalls:
    """Calls of one part of the interface."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def _one(self, kind: type[T], request: Request) -> T:
        return self._read(await self._transport.send(request), lambda document: decode(kind, document))

    async def _all(self, kind: type[T], request: Request) -> list[T]:
        return self._read(await self._transport.send(request), lambda documents: decode_all(kind, documents))

    async def _json(self, request: Request) -> Any:
        return self._read(await self._transport.send(request), lambda document: document)

    def _read(self, answer: Answer, read: Callable[[Any], T]) -> T:
        try:
            return read(answer.json())
        except (ValueError, KeyError) as error:
            address = self._transport.services[0].address
            raise UnexpectedError(f"{address} answered what no Estimand service answers: {error}") from None

    async def _until_there(self, request: Request, until: Optional[float] = None) -> Answer:
        """Sends a request that only reads, again and again while the service is away; not after `until`."""
        back_off = BackOff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                return await self._transport.send(request)
            except (UnreachableError, UnavailableError):
                if until is not None and time.monotonic() >= until:
                    raise
                await pause(back_off.pause())

    def _wait_ms(self, seconds: Optional[float]) -> int:
        """How long a service may wait before it answers, of what a caller would wait."""
        longest = self._transport.options.longest_wait()
        return int(1000 * (longest if seconds is None else max(0.0, min(seconds, longest))))
