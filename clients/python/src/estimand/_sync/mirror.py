"""Values as a mapping that a thread keeps current."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Optional

from estimand._sync.watch import Watch
from estimand.errors import UnreachableError
from estimand.picture import Assembly, Picture
from estimand.view import View


class Mirror(View):
    """Values by name and node that stay current: `with client.mirror("cpu") as values: values["cpu"]["node-1"]`.

    Connections that break are made again, and it goes on behind the revision that it has. Any thread may read it.
    """

    def __init__(self, watch: Watch, assembly: Assembly, timeout: float) -> None:
        super().__init__(watch, assembly)
        self._values_watch, self._timeout = watch, timeout
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._follow, name="estimand-mirror", daemon=True)

    def __enter__(self) -> Mirror:
        self._thread.start()
        try:
            self.wait(timeout=self._timeout)
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError) and self.trouble is not None:
                raise UnreachableError(str(self.trouble)) from None
            raise
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends it. The last picture stays."""
        self._values_watch.interrupt()
        if self._thread.ident is not None:
            self._thread.join()

    def wait(self, after: Optional[Picture] = None, timeout: Optional[float] = None) -> Picture:
        """The picture that follows another one; without one the first. `TimeoutError` if none came in time."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._news:
            while True:
                picture = self.newer(after)
                if picture is not None:
                    return picture
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError("no other values came in time")
                self._news.wait(left)

    def _follow(self) -> None:
        try:
            for event in self._values_watch:
                if self._assembly.apply(event):
                    self._ring()
        except Exception as error:
            self._refused = error
        finally:
            self._values_watch.close()
            self._ring()

    def _ring(self) -> None:
        with self._news:
            self._news.notify_all()
