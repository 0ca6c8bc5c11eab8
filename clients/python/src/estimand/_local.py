"""Files of this machine: read and written in pieces."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Optional

from estimand.errors import DigestError
from estimand.records import FileEntry

_READ_AT_ONCE = 1 << 20


def digest(file: Path) -> tuple[str, int]:
    """The SHA-256 of a file, and its size."""
    found, size = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while data := stream.read(_READ_AT_ONCE):
            found.update(data)
            size += len(data)
    return found.hexdigest(), size


def read_piece(file: Path, at: int, length: int) -> bytes:
    """So many bytes of a file."""
    with file.open("rb") as stream:
        stream.seek(at)
        piece = stream.read(length)
    if len(piece) != length:
        raise DigestError(f"{file} became shorter while it was sent")
    return piece


def part_of(local: Path, entry: FileEntry) -> Path:
    """The file beside it in which what has come is kept. Another content has another one."""
    return local.with_name(f"{local.name}.{(entry.sha256 or '')[:16]}.part")


def add_piece(part: Path, piece: Optional[bytes], size: int) -> int:
    """Adds a piece; returns how much is there, at most the size that the file will have."""
    with part.open("ab") as stream:
        if piece:
            stream.write(piece)
            stream.flush()
        if stream.tell() > size:
            stream.truncate(size)
        return min(stream.tell(), size)


def complete(part: Path, local: Path, entry: FileEntry) -> None:
    """Gives a part its name, if it is the content that was asked for."""
    found, _ = digest(part)
    if entry.sha256 is not None and found != entry.sha256:
        part.unlink()
        raise DigestError(
            f"what came of `{entry.path}` has the digest {found}, and was removed: it was changed meanwhile"
        )
    with part.open("rb") as stream:
        os.fsync(stream.fileno())
    part.replace(local)
