"""How a client asks: its deadlines and attempts."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Deadlines in seconds, and attempts. The defaults are those of Estimand's own client."""

    connect_timeout: float = 3.0
    """For making the connection."""
    read_timeout: float = 15.0
    """For the next byte of an answer."""
    total_timeout: float = 30.0
    """For a whole request, retries aside."""
    attempts: int = 4
    """How often a request is sent at most."""
    retry_within: float = 5.0
    """No further attempt begins after this long."""
    silence: float = 40.0
    """A watch that says nothing for so long is made anew. The service sends a comment every 15 seconds."""
    away: float = 60.0
    """How long a service may be away while a file is sent or fetched."""

    piece: int = 4 * 1024 * 1024
    """How many bytes of a file go over at a time."""

    def longest_wait(self) -> float:
        """The longest that a service may be asked to wait, so that its answer comes within the deadlines."""
        return self.read_timeout * 2 / 3


class BackOff:
    """Pauses that double, with jitter."""

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest, self._next = first, longest, first

    def pause(self) -> float:
        """The next pause, in seconds."""
        upper = self._next
        self._next = min(upper * 2, self._longest)
        return upper * (0.5 + random.random() / 2)

    def reset(self) -> None:
        """Begins anew."""
        self._next = self._first
