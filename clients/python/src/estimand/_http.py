"""HTTP/1.1 as bytes: a request is rendered, a response is read piece by piece. No I/O here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Optional, Union
from urllib.parse import quote, urlencode

MAX_HEAD_BYTES = 64 * 1024
QueryValue = Union[str, int, float, bool, None]


class ProtocolError(Exception):
    """The bytes are no response of HTTP/1.1."""


@dataclass(frozen=True)
class Request:
    """A request to a service, wherever that is."""

    method: str
    path: Sequence[str]
    query: Mapping[str, QueryValue] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Optional[bytes] = None
    media_type: str = "application/json"
    safe: bool = False
    """Twice has the effect of once, so it may be sent again whatever became of it."""

    def target(self, prefix: str) -> str:
        """The path below the service's address, with the query."""
        path = prefix + "".join("/" + quote(segment, safe="") for segment in self.path)
        query = urlencode({name: _text(value) for name, value in self.query.items() if value is not None})
        return f"{path}?{query}" if query else path

    def render(self, prefix: str, host: str, more: Mapping[str, str]) -> bytes:
        """The bytes of it. The time is taken now, so that it says how the clocks differ."""
        headers = {"host": host, "accept": "application/json", "user-agent": "estimand-python", **more, **self.headers}
        if self.body is not None:
            headers["content-type"] = self.media_type
            headers["estimand-sent-at"] = rfc3339(datetime.now(timezone.utc))
        if self.body is not None or self.method in ("POST", "PUT", "PATCH"):
            headers["content-length"] = str(len(self.body or b""))
        lines = [f"{self.method} {self.target(prefix)} HTTP/1.1"]
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable()):
                raise ValueError(f"the header {name} can only have visible ASCII characters")
            lines.append(f"{name}: {value}")
        return "\r\n".join([*lines, "", ""]).encode("ascii") + (self.body or b"")


def rfc3339(instant: datetime) -> str:
    """An instant as services read it. One without a zone is taken as local time."""
    return instant.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def json_body(document: Any) -> bytes:
    """A document as the body of a request; NaN and infinities are refused, since JSON has none."""
    return json.dumps(document, allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode()


def _text(value: QueryValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


@dataclass(frozen=True)
class Answer:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def revision(self) -> int:
        """The revision of what was read."""
        return int(self.headers.get("estimand-revision", "0"))

    @property
    def hint(self) -> Optional[str]:
        """Advice that came with it, for people."""
        return self.headers.get("estimand-hint")

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def problem(self) -> Optional[Mapping[str, Any]]:
        """The problem document, if it is one."""
        if not self.headers.get("content-type", "").startswith("application/problem+json"):
            return None
        try:
            document = json.loads(self.body)
        except ValueError:
            return None
        return document if isinstance(document, dict) and isinstance(document.get("status"), int) else None


class ResponseReader:
    """Reads one response. Bytes are fed as they come; the body is taken as far as it is there."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.has_head = False
        self.is_over = False
        self._can_stay = True
        self._buffer = bytearray()
        self._body = bytearray()
        self._left: Optional[int] = None
        self._is_chunked = False

    @property
    def can_stay(self) -> bool:
        """The connection can take another request when this response is over."""
        return self._can_stay and self.is_over and not self._buffer

    def feed(self, data: bytes) -> None:
        """Takes what came; no bytes mean that the connection has ended."""
        if not data:
            self._end()
            return
        self._buffer += data
        if not self.has_head and not self._read_head():
            return
        if self._is_chunked:
            while not self.is_over and self._read_chunk():
                pass
        else:
            self._read_plain()

    def take(self) -> bytes:
        """The part of the body that came since this was asked last."""
        taken = bytes(self._body)
        self._body.clear()
        return taken

    def _end(self) -> None:
        if not self.has_head or self._is_chunked or self._left is not None:
            raise ConnectionResetError("the connection ended in the midst of a response")
        self.is_over = True

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                raise ProtocolError("an endless head")
            return False
        first, *lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        parts = first.split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
            raise ProtocolError(f"`{first[:60]}` opens no response")
        status = int(parts[1])
        if 100 <= status < 200:
            return self._read_head()
        self.status = status
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise ProtocolError(f"`{line[:60]}` is no header")
            self.headers[name.strip().lower()] = value.strip()
        self._choose_body(parts[0])
        self.has_head = True
        return True

    def _choose_body(self, version: str) -> None:
        self._is_chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length")
        if self.status in (204, 304):
            self._is_chunked, self._left = False, 0
        elif not self._is_chunked and length is not None:
            if not length.isdigit():
                raise ProtocolError(f"`{length[:60]}` is no length")
            self._left = int(length)
        is_endless = not self._is_chunked and self._left is None
        self._can_stay = not is_endless and version == "HTTP/1.1" and "close" not in self.headers.get("connection", "")

    def _read_plain(self) -> None:
        if self._left is None:
            self._body += self._buffer
            self._buffer.clear()
            return
        self._move(self._left)
        self.is_over = self._left == 0

    def _move(self, most: int) -> None:
        """Moves at most so many bytes of what came to the body."""
        part = self._buffer[:most]
        del self._buffer[:most]
        self._body += part
        self._left = most - len(part)

    def _read_chunk(self) -> bool:
        """One step: a chunk's size, a part of a chunk, or the end. False if that takes more bytes."""
        if self._left is None:
            return self._read_chunk_size()
        if self._left > 0:
            self._move(self._left)
            return self._left == 0
        if len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise ProtocolError("a chunk is longer than its size")
        del self._buffer[:2]
        self._left = None
        return True

    def _read_chunk_size(self) -> bool:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                raise ProtocolError("an endless size of a chunk")
            return False
        line = bytes(self._buffer[:end]).split(b";")[0].strip()
        try:
            size = int(line, 16)
        except ValueError:
            raise ProtocolError(f"`{line[:20]!r}` is no size of a chunk") from None
        if size == 0:
            return self._read_trailers(end + 2)
        del self._buffer[: end + 2]
        self._left = size
        return True

    def _read_trailers(self, start: int) -> bool:
        """Passes over the trailers behind the last chunk, up to the empty line."""
        while True:
            end = self._buffer.find(b"\r\n", start)
            if end < 0:
                return False
            if end == start:
                del self._buffer[: end + 2]
                self.is_over = True
                return True
            start = end + 2
