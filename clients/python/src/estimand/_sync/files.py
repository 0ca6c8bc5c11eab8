# Made of _async/files.py by make_sync; change that.
"""Files: sent and fetched in pieces, gone on with where that broke off, and checked by their digests."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Optional, Union

from estimand._sync.calls import FIRST_PAUSE, LONGEST_PAUSE, Calls
from estimand._sync.connection import in_thread, pause
from estimand._decode import decode
from estimand._http import QueryValue, Request
from estimand._local import add_piece, complete, digest, part_of, read_piece
from estimand.errors import (
    ConflictError,
    EstimandError,
    NotFoundError,
    UnavailableError,
    UnexpectedError,
    UnreachableError,
)
from estimand.options import BackOff
from estimand.records import FileEntry, FilePage, UploadProgress

LocalPath = Union[str, Path]


class FileCalls(Calls):
    """The file service. `path` is the name of a file there, `local` one of this machine."""

    def files(
        self,
        folder: Optional[str] = None,
        *,
        recursive: bool = False,
        contains: Optional[str] = None,
        after: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> FilePage:
        """A page of files and folders."""
        query = {"folder": folder, "recursive": recursive, "contains": contains, "after": after, "limit": limit}
        return self._one(FilePage, Request("GET", ("api", "files"), query, safe=True))

    def file(self, path: str) -> FileEntry:
        """One file, with its digest."""
        return self._one(FileEntry, Request("GET", ("api", "files", "entry"), {"path": path}, safe=True))

    def remove_file(self, path: str) -> None:
        """Removes a file or an empty folder."""
        self._transport.send(Request("DELETE", ("api", "files"), {"path": path}))

    def upload(self, local: LocalPath, path: str) -> FileEntry:
        """Sends a file. One that broke off goes on where it was; one that is there already is not sent again."""
        local = Path(local)
        sha256, size = in_thread(digest, local)
        try:
            there = self.file(path)
            if (there.size, there.sha256) == (size, sha256):
                return there
        except NotFoundError:
            pass
        query: dict[str, QueryValue] = {"path": path, "size": size, "sha256": sha256}
        away = _Away(self._transport.options.away)
        while True:
            request = Request("GET", ("api", "files", "upload"), query, safe=True)
            try:
                at = (self._one(UploadProgress, request)).received
                away.moved_to(at)
                while True:
                    entry = self._send_piece(local, query, at, size)
                    if isinstance(entry, FileEntry):
                        return entry
                    at = entry
                    away.moved_to(at)
            except (UnreachableError, UnavailableError, ConflictError) as error:
                # A conflict says that the service has another part of it than was thought.
                pause(away.pause(error))

    def _send_piece(
        self, local: Path, query: dict[str, QueryValue], at: int, size: int
    ) -> Union[FileEntry, int]:
        """Sends a piece. The file if it was the last one, else the place of the next one."""
        piece = in_thread(read_piece, local, at, min(self._transport.options.piece, size - at))
        request = Request(
            "PUT",
            ("api", "files", "content"),
            {**query, "offset": at},
            body=piece,
            media_type="application/octet-stream",
        )
        answer = self._transport.send(request)
        if answer.status == 202:
            return at + len(piece)
        return self._read(answer, lambda document: decode(FileEntry, document))

    def download(self, path: str, local: LocalPath) -> FileEntry:
        """Fetches a file.

        What has come of one that broke off lies beside it, named by its digest, and is gone on with.
        """
        local = Path(local)
        entry = self.file(path)
        part = part_of(local, entry)
        at = in_thread(add_piece, part, None, entry.size)
        away = _Away(self._transport.options.away)
        while at < entry.size:
            try:
                piece = self.file_content(path, at, min(entry.size, at + self._transport.options.piece))
            except (UnreachableError, UnavailableError) as error:
                pause(away.pause(error))
                continue
            at = in_thread(add_piece, part, piece, entry.size)
            away.moved_to(at)
        in_thread(complete, part, local, entry)
        return entry

    def file_content(self, path: str, start: int, end: int) -> bytes:
        """The bytes of a file from `start` to before `end`, which is not beyond its end."""
        headers = {"range": f"bytes={start}-{end - 1}"}
        request = Request("GET", ("api", "files", "content"), {"path": path}, headers, safe=True)
        answer = self._transport.send(request)
        if answer.status != 206 or len(answer.body) != end - start:
            raise UnexpectedError(f"`{path}`: not the range that was asked for: status {answer.status}")
        return answer.body


class _Away:
    """How long a service has been away without a byte going over."""

    def __init__(self, at_most: float) -> None:
        self._at_most, self._at = at_most, -1
        self._since: Optional[float] = None
        self._back_off = BackOff(FIRST_PAUSE, LONGEST_PAUSE)

    def moved_to(self, at: int) -> None:
        if at > self._at:
            self._at, self._since = at, None
            self._back_off.reset()

    def pause(self, error: EstimandError) -> float:
        """The pause before the next attempt; raises the error if it has been too long."""
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since > self._at_most:
            raise error
        return self._back_off.pause()
