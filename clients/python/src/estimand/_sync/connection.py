"""Connections, pauses and files that block. The module beside it in `_async` has the same names."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
from typing import Any, Callable, Optional, TypeVar

from estimand._address import Address

T = TypeVar("T")

pause = time.sleep


def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Calls what waits for a disk: here, since this client waits anyway."""
    return call(*arguments)


def is_quiet(stream: Any) -> bool:
    """True if nothing is there to be read of a socket, its end included."""
    poll = select.poll()
    try:
        poll.register(stream.fileno(), select.POLLIN)
    except (OSError, ValueError):
        return False
    return not poll.poll(0)


class Pauses:
    """Pauses that an end cuts short, which another thread may tell."""

    def __init__(self) -> None:
        self._end = threading.Event()

    @property
    def is_over(self) -> bool:
        """The end was told."""
        return self._end.is_set()

    def end(self) -> None:
        """No pause lasts from now on."""
        self._end.set()

    def pause(self, seconds: float) -> None:
        """Waits, or returns early at the end."""
        self._end.wait(seconds)


class Connection:
    """A connection to a service. `OSError` and `TimeoutError` say that it does not go on."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream

    @staticmethod
    def open(address: Address, tls: Optional[ssl.SSLContext], timeout: float) -> Connection:
        """Connects."""
        if address.socket:
            return Connection._at(address.socket, timeout)
        stream = socket.create_connection((address.host, address.port), timeout)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return Connection(tls.wrap_socket(stream, server_hostname=address.host) if tls else stream)
        except BaseException:
            stream.close()
            raise

    @staticmethod
    def _at(path: str, timeout: float) -> Connection:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.settimeout(timeout)
        try:
            stream.connect(path)
        except BaseException:
            stream.close()
            raise
        return Connection(stream)

    def send(self, data: bytes, timeout: float) -> None:
        """Sends all of it."""
        self._stream.settimeout(timeout)
        self._stream.sendall(data)

    def receive(self, timeout: float) -> bytes:
        """What came; nothing at the end of the connection."""
        self._stream.settimeout(timeout)
        return self._stream.recv(256 * 1024)

    def is_quiet(self) -> bool:
        """True while it is open and nothing came that nobody asked for."""
        return is_quiet(self._stream)

    def interrupt(self) -> None:
        """Wakes another thread that waits here."""
        # `shutdown` of a socket wakes it; `close` does not. That of TLS would wait for its lock.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._stream, socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends it at once."""
        self._stream.close()
