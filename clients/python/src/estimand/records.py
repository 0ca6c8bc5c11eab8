"""What services answer, and the documents that they are sent.

Answers are frozen dataclasses. A registration and a task are documents that people write, so they are dictionaries with
the names of the wire, whose types a checker knows.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Optional, TypedDict, Union

from estimand.task_reports import AttemptUsage, TaskProgress

Json = Any
"""Any JSON: what `json.loads` makes of it."""

# The states in which nothing more happens to a task.
_OVER = ("SUCCEEDED", "FAILED", "CANCELLED")

_ENDINGS = {
    "exit": "exit code",
    "outOfMemory": "out of memory",
    "timedOut": "timed out",
    "nodeLost": "its node was lost",
    "imageMissing": "its image is missing",
    "notStarted": "not started:",
    "dependency": "it never ran, because of",
}


@dataclass(frozen=True)
class Value:
    """A value of a data name for a node, with its state: `fresh`, `stale`, `failed` or `node-lost`."""

    data_name: str
    node_name: str
    collected_at: datetime
    received_at: datetime
    state: str
    revision: int
    value: Json = field(default=None, metadata={"key": "dataValue"})
    valid_for: Optional[float] = None
    note: Optional[str] = None
    provenance: Optional[Mapping[str, Json]] = None

    @property
    def is_fresh(self) -> bool:
        """It holds."""
        return self.state == "fresh"


@dataclass(frozen=True)
class PastValue:
    """A value that a node had."""

    data_name: str
    node_name: str
    collected_at: datetime
    received_at: datetime
    revision: int
    value: Json = field(default=None, metadata={"key": "dataValue"})


@dataclass(frozen=True)
class Write:
    """A value to be written."""

    data_name: str
    node_name: str
    value: Json
    collected_at: Optional[datetime] = None
    valid_for: Union[float, str, None] = None
    provenance: Optional[Mapping[str, Json]] = None


@dataclass(frozen=True)
class WriteReceipt:
    """The answer to a write: `created`, `replaced`, `superseded` or `no-value`."""

    outcome: str
    revision: int


@dataclass(frozen=True)
class BatchReceipt:
    """The answer to a batch: how many values were new, and the revision of the last one."""

    created: int
    replaced: int
    superseded: int
    revision: int


@dataclass(frozen=True)
class DeletionReceipt:
    """How many values were deleted."""

    deleted: int
    revision: int


@dataclass(frozen=True)
class BindingTarget:
    """The name that a binding serves, or a part of its values."""

    to: str
    field: Optional[str] = None


@dataclass(frozen=True)
class Binding:
    """A name that serves the values of another one."""

    data_name: str
    to: str
    since: datetime
    revision: int
    field: Optional[str] = None
    before: Optional[BindingTarget] = None


@dataclass(frozen=True)
class Swap:
    """One change of a binding: `bound`, `rolled-back` or `unbound`."""

    to: str
    at: datetime
    revision: int
    by: str
    action: str
    field: Optional[str] = None


# In this syntax because of the hyphen in `max-Time`.
Registration = TypedDict(
    "Registration",
    {
        "dataName": str,
        "cmd": Union[str, Sequence[str]],
        "max-Time": float,
        "gap": Union[float, str],
        "schedule": str,
        "atOnce": bool,
        "phase": str,
        "timeout": Union[float, str],
        "kind": str,
        "mode": str,
        "format": str,
        "strict": bool,
        "okExits": Sequence[int],
        "nodes": str,
        "replicas": Union[int, str],
        "inputs": Sequence[str],
        "params": Mapping[str, Json],
        "env": Mapping[str, Optional[str]],
        "secrets": Sequence[str],
        "sha256": str,
        "upload": Json,
        "paused": bool,
        "history": Union[str, Mapping[str, Json]],
        "limits": Mapping[str, Json],
        "schema": Json,
        "range": Json,
        "unit": Json,
        "configSet": str,
        "version": int,
        "createdAt": str,
        "updatedAt": str,
    },
    total=False,
)
"""A registration; `docs/registration-fields.md` explains each field."""


@dataclass(frozen=True)
class Change:
    """A change of a registration: `created`, `replaced` or `deleted`."""

    version: int
    action: str
    at: datetime
    by: str
    registration: Mapping[str, Json]


@dataclass(frozen=True)
class Node:
    """A node as the manager knows it: `ready` or `lost`."""

    node_name: str
    state: str
    cordoned: bool
    labels: Mapping[str, str]
    facts: Mapping[str, Json]
    last_heartbeat: datetime
    known_since: datetime
    instances: int
    delivery: Mapping[str, Json]
    clock_ahead_ms: Optional[int] = None


@dataclass(frozen=True)
class Capacity:
    """What a node has, and what of it no task has: `cpu` in thousandths of a processor, `memory` in bytes.

    Its standing is `up`, `cordoned` or `lost`.
    """

    node: str
    standing: str
    capacity: Mapping[str, int]
    free: Mapping[str, int]
    tasks: int


class TaskDocument(TypedDict, total=False):
    """A task that is submitted; `docs/tasks.md` explains each field."""

    id: str
    priority: int
    image: str
    command: Union[str, Sequence[str]]
    directory: str
    volumes: Union[Sequence[str], str]
    environment: Union[Mapping[str, Json], Sequence[Json], str]
    secrets: Sequence[str]
    resources: Mapping[str, Union[float, str]]
    nodes: str
    policy: str
    timeout: Union[float, str]
    checkpointGrace: Union[float, str]
    retries: Union[int, Mapping[str, Json]]
    onLoss: str
    lease: Union[float, str]
    labels: Mapping[str, str]
    user: str
    count: int
    after: Union[Sequence[Union[str, Mapping[str, Json]]], str]
    promise: str
    inputs: Union[Sequence[Union[str, Mapping[str, Json]]], str]
    outputs: Union[Sequence[str], str]
    port: int


@dataclass(frozen=True)
class Transition:
    """A change of a task's state."""

    at: datetime
    to: str
    cause: Mapping[str, Json]
    from_: str = ""
    actor: Json = None


@dataclass(frozen=True)
class Task:
    """A task or an array of them, and how far it is."""

    id: str
    state: str
    attempt: int
    submitted_at: datetime
    submitted_by: str
    document: Mapping[str, Json]
    node: Optional[str] = None
    ending: Json = None
    """How the last attempt ended: `{"exit": 3}`, `{"signal": 9}`, `"timedOut"`, `{"dependency": ID}` and others."""
    program: Json = None
    """How the program of that attempt ended, where `ending` is the reason for which it was ended."""
    failures: int = 0
    not_before: Optional[datetime] = None
    ended_at: Optional[datetime] = None
    lines: int = 0
    progress: Optional[TaskProgress] = None
    """How far it said it is, the last time that it did."""
    progress_problem: Optional[str] = None
    """The first line that was to be progress and is none, and why."""
    array: Optional[str] = None
    index: Optional[int] = None
    states: Mapping[str, int] = field(default_factory=dict)
    """Of an array: how many of its tasks are in each state."""
    awaits: Sequence[str] = ()
    waits: Optional[str] = None
    """Why it is not placed."""
    why: Optional[Mapping[str, Json]] = None
    """The decision by which it is where it is."""
    used: Sequence[AttemptUsage] = ()
    """The usage of its attempts that ended and were measured; in a list only of the last one."""
    transitions: Sequence[Transition] = ()
    hint: Optional[str] = None
    """Of a submission: why no node can take it now. Of `yield_task`: that it waits already."""

    @property
    def is_over(self) -> bool:
        """Nothing more happens to it."""
        return self.state in _OVER

    @property
    def succeeded(self) -> bool:
        """It is over, and did what it should."""
        return self.state == "SUCCEEDED"

    def end_in_words(self) -> str:
        """How its last attempt ended."""
        if isinstance(self.ending, dict):
            return ", ".join(f"{_ENDINGS.get(key, key)} {value}" for key, value in self.ending.items())
        return _ENDINGS.get(str(self.ending), str(self.ending or "no end yet"))


@dataclass(frozen=True)
class TaskPage:
    """A page of tasks, the newest first. `next` is the `before` of the next page."""

    tasks: Sequence[Task]
    next: Optional[str] = None
    revision: int = 0
    """The revision of the feed of events after which to go on."""


@dataclass(frozen=True)
class LogLine:
    """A line of a task's log. Its stream is `STDOUT` or `STDERR`."""

    line: int
    attempt: int
    at: datetime
    stream: str
    text: str
    partial: bool = False
    dropped: int = 0
    encoded: Optional[str] = field(default=None, metadata={"key": "bytes"})
    """In base64 the bytes with their end of line, where they are other than the text and an end of line."""

    @property
    def written(self) -> bytes:
        """The bytes that the task wrote here."""
        if self.encoded is not None:
            return b64decode(self.encoded)
        if self.dropped and not self.text:
            return b""
        return (self.text if self.partial else self.text + "\n").encode()


@dataclass(frozen=True)
class OpenLine:
    """A line that has begun and not ended, such as a prompt or a bar of progress, as a terminal shows it."""

    attempt: int
    at: datetime
    stream: str
    text: str


@dataclass(frozen=True)
class LogPage:
    """A piece of a log. `next` is the number from which to go on; `over` says that nothing follows any more."""

    lines: Sequence[LogLine]
    next: int
    over: bool
    open: Sequence[OpenLine] = ()
    """The unfinished lines behind the last one."""
    open_revision: Optional[int] = None
    """With it as `open` a page waits also until these are others."""


@dataclass(frozen=True)
class TaskEvent:
    """Something that happened to a task: its submission, a change of its state, or that it was deleted."""

    revision: int
    at: datetime
    id: str
    number: int
    to: str
    cause: Mapping[str, Json]
    from_: Optional[str] = None
    attempt: int = 0
    node: Optional[str] = None
    ending: Json = None
    actor: Json = None
    user: Optional[str] = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskEventPage:
    """A page of events, the oldest first. `next` is the revision after which to go on."""

    events: Sequence[TaskEvent]
    next: int
    revision: int


@dataclass(frozen=True)
class FileEntry:
    """A file or a folder. The digest is that of a single file."""

    path: str
    size: int
    modified_at: datetime
    is_folder: bool = False
    sha256: Optional[str] = None


@dataclass(frozen=True)
class FilePage:
    """A page of files. `next` is the `after` of the next page."""

    files: Sequence[FileEntry]
    next: Optional[str] = None


@dataclass(frozen=True)
class UploadProgress:
    """How much of a file has come."""

    received: int
    size: int
