"""Values as a mapping that a task of asyncio keeps current."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Optional

from estimand._async.watch import AsyncWatch
from estimand.errors import UnreachableError
from estimand.picture import Assembly, Picture
from estimand.view import View


class AsyncMirror(View):
    """Values by name and node that stay current: `async with client.mirror("cpu") as values: values["cpu"]["node-1"]`.

    Connections that break are made again, and it goes on behind the revision that it has.
    """

    def __init__(self, watch: AsyncWatch, assembly: Assembly, timeout: float) -> None:
        super().__init__(watch, assembly)
        self._values_watch, self._timeout = watch, timeout
        self._task: Optional[asyncio.Task[None]] = None
        self._news = asyncio.Event()

    async def __aenter__(self) -> AsyncMirror:
        self._task = asyncio.create_task(self._follow())
        try:
            await self.wait(timeout=self._timeout)
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError) and self.trouble is not None:
                raise UnreachableError(str(self.trouble)) from None
            raise
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends it. The last picture stays."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._values_watch.close()
        self._ring()

    async def wait(self, after: Optional[Picture] = None, timeout: Optional[float] = None) -> Picture:
        """The picture that follows another one; without one the first. `TimeoutError` if none came in time."""
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        while True:
            picture = self.newer(after)
            if picture is not None:
                return picture
            news = self._news
            left = None if until is None else until - loop.time()
            try:
                await asyncio.wait_for(news.wait(), left)
            except asyncio.TimeoutError:
                raise TimeoutError("no other values came in time") from None

    async def _follow(self) -> None:
        try:
            async for event in self._values_watch:
                if self._assembly.apply(event):
                    self._ring()
        except Exception as error:
            self._refused = error
            self._ring()

    def _ring(self) -> None:
        """Wakes all that wait, each of which waits for the next event from then on."""
        news, self._news = self._news, asyncio.Event()
        news.set()
