"""What a task said and used: its progress, and the usage of its attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Optional


@dataclass(frozen=True)
class TaskUsage:
    """The usage of one attempt at a task: microseconds, and bytes of memory (without the page cache) and of disk."""

    ran_us: int
    cpu_user_us: int
    cpu_system_us: int
    disk_read: int
    disk_written: int
    memory_peak: Optional[int] = None
    memory_mean: Optional[int] = None
    memory_cache: Optional[int] = None
    memory_limit: Optional[int] = None


@dataclass(frozen=True)
class AttemptUsage:
    """An attempt at a task, with its usage."""

    attempt: int
    usage: TaskUsage


@dataclass(frozen=True)
class TaskProgress:
    """How far a task said it is, in a line `estimand-progress {...}` of its standard output."""

    attempt: int
    at: datetime
    step: Optional[float] = None
    of: Optional[float] = None
    values: Mapping[str, float] = field(default_factory=dict)
    missing: int = 0
    """At least so many reports and lines before this one are missing."""


@dataclass(frozen=True)
class TaskProgressReport(TaskProgress):
    """A report of a task's progress, in one order over all tasks."""

    revision: int = 0
    id: str = ""
    number: int = 0


@dataclass(frozen=True)
class TaskProgressPage:
    """A page of reports, the oldest first. `next` is the revision after which to go on."""

    reports: Sequence[TaskProgressReport]
    next: int
    revision: int
