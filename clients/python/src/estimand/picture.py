"""Values as a mapping that stays current: events of a watch become pictures of one revision each. No I/O here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional, Union

from estimand._decode import decode, decode_all
from estimand.records import Json, Value


@dataclass(frozen=True)
class Snapshot:
    """All values there are; earlier events are void. The reason is `start`, `gone` or `rebound`."""

    revision: int
    reason: str
    values: Sequence[Value]


@dataclass(frozen=True)
class Changed:
    """A value is new or changed, or its state did."""

    value: Value


@dataclass(frozen=True)
class Deleted:
    """A value is gone."""

    data_name: str
    node_name: str
    revision: int


@dataclass(frozen=True)
class Settled:
    """All changes up to this revision have been told, so a batch is never half there."""

    revision: int


WatchEvent = Union[Snapshot, Changed, Deleted, Settled]


@dataclass(frozen=True)
class EventBlock:
    """The lines of one server-sent event."""

    id: Optional[str]
    event: str
    data: str

    @staticmethod
    def parse(block: bytes) -> EventBlock:
        """Reads the lines of a block. Comments are passed over."""
        fields: dict[str, str] = {}
        data = []
        for line in block.decode("utf-8", "replace").split("\n"):
            name, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "data":
                data.append(value)
            else:
                fields[name] = value
        return EventBlock(fields.get("id"), fields.get("event", ""), "\n".join(data))

    def watch_event(self) -> Optional[WatchEvent]:
        """The event of a watch of values; none for comments and for events that are not known here."""
        if self.event == "snapshot":
            document = json.loads(self.data)
            return Snapshot(document["revision"], document["reason"], decode_all(Value, document["values"]))
        if self.event == "change":
            return Changed(decode(Value, json.loads(self.data)))
        if self.event == "delete":
            return decode(Deleted, json.loads(self.data))
        if self.event == "settled":
            document = json.loads(self.data) if self.data else {}
            return Settled(int(document.get("revision", self.id or 0)))
        return None


class NodeValues(Mapping[str, Json]):
    """The values of one name by node, as plain JSON. It never changes; `record` has state and times."""

    def __init__(self, records: Mapping[str, Value]) -> None:
        self._records = records

    def __getitem__(self, node: str) -> Json:
        return self._records[node].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return repr(dict(self))

    def record(self, node: str) -> Value:
        """The value with its state, times and revision."""
        return self._records[node]

    def records(self) -> Mapping[str, Value]:
        """All of them, by node."""
        return dict(self._records)

    def fresh(self) -> NodeValues:
        """Only those that hold: not stale, not of a failed run, not of a lost node."""
        return NodeValues({node: record for node, record in self._records.items() if record.is_fresh})


class Picture(Mapping[str, NodeValues]):
    """Values by name and node, all of one revision. It never changes: the next revision is another picture."""

    def __init__(self, names: Mapping[str, NodeValues], revision: int) -> None:
        self._names = names
        self.revision = revision

    def __getitem__(self, name: str) -> NodeValues:
        return self._names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<revision {self.revision}: {dict(self._names)!r}>"


class Assembly:
    """Makes pictures of events. Changes wait until the watch has settled."""

    def __init__(self, names: Sequence[str]) -> None:
        # A name that is watched is there before its first value.
        self._always = [name for name in names if "*" not in name]
        self._records: dict[str, dict[str, Value]] = {}
        self._pending: list[Union[Changed, Deleted]] = []
        self.picture: Optional[Picture] = None

    def apply(self, event: WatchEvent) -> bool:
        """Takes an event; true if there is another picture now."""
        if isinstance(event, Snapshot):
            self._pending.clear()
            self._records = {}
            for value in event.values:
                self._records.setdefault(value.data_name, {})[value.node_name] = value
            self._publish({name: NodeValues(nodes) for name, nodes in self._records.items()}, event.revision)
            return True
        if isinstance(event, Settled):
            return self._settle(event.revision)
        self._pending.append(event)
        return False

    def _settle(self, revision: int) -> bool:
        if not self._pending or self.picture is None:
            return False
        names = dict(self.picture)
        # Dictionaries of published pictures stay as they are.
        for name in {_name(event) for event in self._pending}:
            self._records[name] = dict(self._records.get(name, {}))
        for event in self._pending:
            if isinstance(event, Changed):
                self._records[event.value.data_name][event.value.node_name] = event.value
            else:
                self._records[event.data_name].pop(event.node_name, None)
        for name in {_name(event) for event in self._pending}:
            if self._records[name]:
                names[name] = NodeValues(self._records[name])
            else:
                names.pop(name, None)
                del self._records[name]
        self._pending.clear()
        self._publish(names, revision)
        return True

    def _publish(self, names: dict[str, NodeValues], revision: int) -> None:
        for name in self._always:
            names.setdefault(name, NodeValues({}))
        self.picture = Picture(names, revision)


def _name(event: Union[Changed, Deleted]) -> str:
    return event.value.data_name if isinstance(event, Changed) else event.data_name
