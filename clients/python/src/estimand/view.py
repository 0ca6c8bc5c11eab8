"""The reading side of a mirror, which its threads and tasks share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Optional, Protocol

from estimand.errors import EstimandError
from estimand.picture import Assembly, NodeValues, Picture


class Source(Protocol):
    """The state of a watch's connection."""

    trouble: Optional[EstimandError]

    @property
    def is_connected(self) -> bool:
        """True while events can come."""


class View(Mapping[str, NodeValues]):
    """Values by name and node, as they are now. `picture` is all of them at one revision."""

    def __init__(self, source: Source, assembly: Assembly) -> None:
        self._source, self._assembly = source, assembly
        self._refused: Optional[Exception] = None

    @property
    def picture(self) -> Picture:
        """All values, of one revision. It never changes, so what is read of it belongs together."""
        if self._refused is not None:
            raise self._refused
        if self._assembly.picture is None:
            raise RuntimeError("a mirror has values only within its `with`")
        return self._assembly.picture

    @property
    def revision(self) -> int:
        """The revision of the values that it has."""
        return self.picture.revision

    @property
    def is_connected(self) -> bool:
        """False while the service is away: then the values are the last ones that came."""
        return self._source.is_connected

    @property
    def trouble(self) -> Optional[EstimandError]:
        """Why it is not connected."""
        return self._source.trouble

    def newer(self, after: Optional[Picture]) -> Optional[Picture]:
        """The picture, if it is another one."""
        if self._refused is not None:
            raise self._refused
        picture = self._assembly.picture
        return None if picture is after else picture

    def __getitem__(self, name: str) -> NodeValues:
        return self.picture[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.picture)

    def __len__(self) -> int:
        return len(self.picture)

    def __repr__(self) -> str:
        return repr(self._assembly.picture)
