# Made of _async/watch.py by make_sync; change that.
"""A watch of values: the snapshot first, then each change.

A connection that breaks is made again, and goes on behind the last revision of which all had come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Optional

from estimand._sync.connection import Pauses
from estimand._sync.transport import Response, Transport, broken, is_for_another, refusal
from estimand._http import Answer, ProtocolError, QueryValue, Request
from estimand.errors import (
    EstimandError,
    NotServedError,
    Problem,
    UnexpectedError,
    UnreachableError,
    UntrustedError,
)
from estimand.options import BackOff
from estimand.picture import EventBlock, Settled, Snapshot, WatchEvent

# The pauses before it connects again.
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
# The longest event: a snapshot of very many values.
MAX_EVENT_BYTES = 1 << 30


class Watch(Iterator[WatchEvent]):
    """The events of a watch, until it is closed. An error is a refusal by the service."""

    def __init__(self, transport: Transport, query: Mapping[str, QueryValue]) -> None:
        self._transport, self._query = transport, query
        self._pauses = Pauses()
        self._back_off = BackOff(FIRST_PAUSE, LONGEST_PAUSE)
        self._response: Optional[Response] = None
        self._service = 0
        self._buffer = bytearray()
        self._scanned = 0
        self._last_id: Optional[str] = None
        self.trouble: Optional[EstimandError] = None
        """Why it has no connection now; none while it has one."""

    @property
    def is_connected(self) -> bool:
        """True while events can come."""
        return self._response is not None and self._response.reader.has_head

    def interrupt(self) -> None:
        """Ends it while another thread waits for its next event, which then closes it."""
        self._pauses.end()
        response = self._response
        if response is not None:
            response.connection.interrupt()

    def close(self) -> None:
        """Ends it."""
        self._pauses.end()
        self._drop()

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> WatchEvent:
        while not self._pauses.is_over:
            block = self._next_block()
            if block is None:
                self._fill_or_pause()
                continue
            self._back_off.reset()
            event = self._read(block)
            if event is not None:
                return event
        raise StopIteration

    def _next_block(self) -> Optional[bytes]:
        """The lines of the next event, if they are there. Of a large one each byte is looked at once."""
        end = self._buffer.find(b"\n\n", self._scanned)
        if end < 0:
            self._scanned = max(0, len(self._buffer) - 1)
            return None
        block = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        self._scanned = 0
        return block

    def _read(self, block: bytes) -> Optional[WatchEvent]:
        parsed = EventBlock.parse(block)
        try:
            event = parsed.watch_event()
        except (ValueError, KeyError) as error:
            raise UnexpectedError(f"event `{parsed.event}`: {error!r}") from None
        # One revision may be several events, so it goes on behind a revision only when all of it has come.
        if parsed.id is not None and isinstance(event, (Snapshot, Settled)):
            self._last_id = parsed.id
        return event

    def _fill_or_pause(self) -> None:
        try:
            self._fill()
            self.trouble = None
        except EstimandError as error:
            self._drop()
            if self._pauses.is_over:
                return
            self.trouble = error
            if not self._passes(error):
                raise
            self._pauses.pause(self._back_off.pause())

    def _passes(self, error: EstimandError) -> bool:
        """True if it makes sense to connect again, perhaps to another service."""
        if is_for_another(error):
            self._service = (self._service + 1) % len(self._transport.services)
            # Without another one the answer is the same again.
            if isinstance(error, NotServedError):
                return self._service != 0
        is_passing = isinstance(error, Problem) and error.status == 503
        return is_passing or isinstance(error, (UnreachableError, UntrustedError))

    def _drop(self) -> None:
        if self._response is not None:
            self._response.connection.close()
        self._response = None
        self._buffer.clear()
        self._scanned = 0

    def _fill(self) -> None:
        """Reads more bytes, over a new connection if there is none."""
        silence = self._transport.options.silence
        response = self._response
        try:
            if response is None:
                response = self._connect()
            part = response.read_part(silence)
        except (OSError, ProtocolError) as error:
            raise broken(response.url if response else "the service", error) from None
        if not part:
            raise UnreachableError(f"{response.url} does not answer: the stream ended")
        self._buffer += part
        if len(self._buffer) > MAX_EVENT_BYTES:
            raise UnexpectedError(f"{response.url} sends an endless event")

    def _connect(self) -> Response:
        headers = {"accept": "text/event-stream"}
        if self._last_id is not None:
            headers["last-event-id"] = self._last_id
        request = Request("GET", ("api", "data", "watch"), self._query, headers, safe=True)
        response = self._transport.open(self._service, request)
        # Here already, so that an end closes it.
        self._response = response
        if self._pauses.is_over:
            raise UnreachableError(f"{response.url}: the watch is closed")
        response.read_head(self._transport.options.read_timeout)
        if not 200 <= response.reader.status < 300:
            body = response.read_part(self._transport.options.read_timeout)
            raise refusal(response.url, Answer(response.reader.status, response.reader.headers, body))
        return response
