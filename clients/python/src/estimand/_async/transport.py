"""Requests: sent to the service that serves them, and again where that does no harm."""

from __future__ import annotations

import ssl
import time
from collections import deque
from collections.abc import Sequence
from typing import Optional

from estimand._address import Credentials, Service
from estimand._async.connection import AsyncConnection, in_thread, pause
from estimand._http import Answer, ProtocolError, Request, ResponseReader
from estimand.errors import (
    ConnectError,
    EstimandError,
    NotServedError,
    OutcomeUnknownError,
    Problem,
    StandingByError,
    UnexpectedError,
    UnreachableError,
    UntrustedError,
    problem_of,
)
from estimand.options import BackOff, Options

# The pauses between attempts.
FIRST_PAUSE = 0.075
LONGEST_PAUSE = 2.0
# So many idle connections are kept to each service. A new one costs a look at the table of sockets.
IDLE_CONNECTIONS = 64
# A service closes a connection that was idle for 75 seconds; a request that is sent in that moment would be lost.
MAX_IDLE_TIME = 60.0


class _Failure(Exception):
    """A request that brought no good answer. `taken`: the service may have acted on it."""

    def __init__(self, error: EstimandError, taken: bool) -> None:
        super().__init__(error)
        self.error, self.taken = error, taken


class AsyncResponse:
    """A response that is on its way."""

    def __init__(self, url: str, connection: AsyncConnection) -> None:
        self.url, self.connection = url, connection
        self.reader = ResponseReader()

    async def read_head(self, timeout: float) -> None:
        """Waits for status and headers."""
        while not self.reader.has_head:
            self.reader.feed(await self.connection.receive(timeout))

    async def read_body(self, timeout: float, until: float) -> bytes:
        """Waits for all of it."""
        parts = [self.reader.take()]
        while not self.reader.is_over:
            self.reader.feed(await self.connection.receive(min(timeout, _left(until))))
            parts.append(self.reader.take())
        return b"".join(parts)

    async def read_part(self, timeout: float) -> bytes:
        """What comes next of the body; nothing at its end."""
        while True:
            part = self.reader.take()
            if part or self.reader.is_over:
                return part
            self.reader.feed(await self.connection.receive(timeout))


class AsyncTransport:
    """Speaks to one service, and to others for what it does not serve."""

    def __init__(self, addresses: Sequence[str], credentials: Credentials, options: Options) -> None:
        self.services = [Service(address, credentials) for address in addresses]
        self.options = options
        # Each connection with the time of its last response.
        self._idle: list[deque[tuple[float, AsyncConnection]]] = [deque() for _ in self.services]
        self._is_closed = False

    def close(self) -> None:
        """Ends its idle connections; none is kept from then on."""
        self._is_closed = True
        for idle in self._idle:
            kept = _pop(idle)
            while kept is not None:
                kept[1].close()
                kept = _pop(idle)

    async def send(self, request: Request) -> Answer:
        """Sends a request until there is an answer or it makes no sense to go on."""
        back_off = BackOff(FIRST_PAUSE, LONGEST_PAUSE)
        began, attempt = time.monotonic(), 1
        while True:
            try:
                return await self._send_to_one(request)
            except _Failure as failure:
                error, again = failure.error, request.safe or not failure.taken
            if isinstance(error, Problem):
                again = again and error.status == 503
            else:
                again = again and isinstance(error, UnreachableError)
            is_late = time.monotonic() - began >= self.options.retry_within
            if not again or is_late or attempt >= self.options.attempts:
                raise error
            await pause(back_off.pause())
            attempt += 1

    async def _send_to_one(self, request: Request) -> Answer:
        """Sends a request once, to the first service that serves it."""
        failed: Optional[_Failure] = None
        for place in range(len(self.services)):
            try:
                return await self._send_once(place, request)
            except _Failure as failure:
                error, is_elsewhere = failure.error, isinstance(failure.error, NotServedError)
                if not is_for_another(error) or (failure.taken and not request.safe and not is_elsewhere):
                    raise
                # That the right one does not answer says more than that others do not serve it.
                if failed is None or isinstance(failed.error, NotServedError):
                    failed = failure
        assert failed is not None
        raise failed

    async def _send_once(self, place: int, request: Request) -> Answer:
        until = time.monotonic() + self.options.total_timeout
        try:
            response = await self.open(place, request)
        except EstimandError as error:
            raise _Failure(error, taken=not isinstance(error, (ConnectError, UntrustedError))) from None
        try:
            await response.read_head(min(self.options.read_timeout, _left(until)))
            body = await response.read_body(self.options.read_timeout, until)
        except (OSError, ProtocolError) as error:
            response.connection.close()
            raise _Failure(broken(response.url, error), taken=True) from None
        except BaseException:
            response.connection.close()
            raise
        self._put_back(place, response)
        answer = Answer(response.reader.status, response.reader.headers, body)
        if 200 <= answer.status < 300:
            return answer
        raise self._refusal(response.url, answer)

    @staticmethod
    def _refusal(url: str, answer: Answer) -> _Failure:
        error = refusal(url, answer)
        is_undone = answer.status == 503 and isinstance(error, Problem) and not isinstance(error, OutcomeUnknownError)
        return _Failure(error, taken=not is_undone)

    async def open(self, place: int, request: Request) -> AsyncResponse:
        """Sends a request to one of the services. The response is still to be read."""
        service = self.services[place]
        address = service.address
        base = str(address) if address.socket else f"{address.scheme}://{address.authority}"
        url = f"{base}{request.target(address.prefix)}"
        data = request.render(address.prefix, address.authority, service.headers())
        try:
            connection = self._idle_connection(place) or await self._connect(service)
        except ssl.SSLCertVerificationError as error:
            raise UntrustedError(f"{url} is not trusted: {error}") from None
        except OSError as error:
            raise ConnectError(f"{url} does not answer: cannot connect: {_words(error)}") from None
        try:
            await connection.send(data, self.options.read_timeout)
        except OSError as error:
            connection.close()
            raise broken(url, error) from None
        except BaseException:
            connection.close()
            raise
        return AsyncResponse(url, connection)

    def _idle_connection(self, place: int) -> Optional[AsyncConnection]:
        idle = self._idle[place]
        kept = _pop(idle)
        while kept is not None:
            since, connection = kept
            if time.monotonic() - since < MAX_IDLE_TIME and connection.is_quiet():
                return connection
            connection.close()
            kept = _pop(idle)
        return None

    async def _connect(self, service: Service) -> AsyncConnection:
        before = await in_thread(service.listeners)
        timeout = self.options.connect_timeout
        tls = await in_thread(service.tls)
        connection = await AsyncConnection.open(service.address, tls, timeout)
        try:
            await in_thread(service.check_same, before)
        except BaseException:
            connection.close()
            raise
        return connection

    def _put_back(self, place: int, response: AsyncResponse) -> None:
        idle = self._idle[place]
        if response.reader.can_stay and not self._is_closed and len(idle) < IDLE_CONNECTIONS:
            idle.append((time.monotonic(), response.connection))
        else:
            response.connection.close()


def refusal(url: str, answer: Answer) -> EstimandError:
    """The error of an answer that is no success."""
    document = answer.problem()
    if document is None:
        return UnexpectedError(f"{url} answered what no Estimand service answers: status {answer.status}")
    return problem_of(document)


def broken(url: str, error: Exception) -> EstimandError:
    """The error of a connection that does not go on."""
    if isinstance(error, ProtocolError):
        return UnexpectedError(f"{url} answered what no Estimand service answers: {error}")
    return UnreachableError(f"{url} does not answer: {_words(error)}")


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def is_for_another(error: EstimandError) -> bool:
    """True if another service may answer: this one does not serve it, stands by, or does not answer."""
    return isinstance(error, (NotServedError, StandingByError, UnreachableError))


def _pop(idle: deque[tuple[float, AsyncConnection]]) -> Optional[tuple[float, AsyncConnection]]:
    # Another thread may take the last one between a look and a pop.
    try:
        return idle.pop()
    except IndexError:
        return None


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("no complete answer in time")
    return left
