"""Studies of tuning and their trials, as services answer them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Optional, TypedDict, Union

from estimand.records import Json


class StudyDocument(TypedDict, total=False):
    """A study as it is made. docs/tuning.md says what each field means."""

    id: str
    direction: str
    parameters: Sequence[Mapping[str, Json]]
    sampler: Union[str, Mapping[str, Json]]
    pruner: Union[str, Mapping[str, Json]]
    seed: int
    enqueued: Sequence[Mapping[str, Json]]
    stop: Mapping[str, Json]
    silence: Union[float, str]
    patience: Union[float, str]
    user: str
    task: Mapping[str, Json]
    parallel: int
    objective: str


@dataclass(frozen=True)
class TrialCounts:
    """How many trials of a study are in which state."""

    running: int
    complete: int
    pruned: int
    failed: int


@dataclass(frozen=True)
class BestResult:
    """The trial with the best value."""

    number: int
    value: float


@dataclass(frozen=True)
class Study:
    """A search for good parameters. Its state is `RUNNING`, `PAUSED` or `OVER`."""

    id: str
    state: str
    seed: int
    trials: TrialCounts
    made_at: datetime
    made_by: str
    document: Mapping[str, Json]
    reason: Optional[str] = None
    """The rule that stopped it, or `stopped`."""
    user: Optional[str] = None
    best: Optional[BestResult] = None
    ended_at: Optional[datetime] = None

    @property
    def is_over(self) -> bool:
        """It proposes nothing more."""
        return self.state == "OVER"


@dataclass(frozen=True)
class StudyPage:
    """A page of studies, the newest first. `next` is the `before` of the next page."""

    studies: Sequence[Study]
    next: Optional[str] = None


@dataclass(frozen=True)
class Report:
    """A value that a trial reported on its way."""

    step: int
    value: float


@dataclass(frozen=True)
class Trial:
    """One set of parameters, and what came of it. Its state is `RUNNING`, `COMPLETE`, `PRUNED` or `FAILED`."""

    number: int
    state: str
    parameters: Mapping[str, Any]
    seen: int
    """How many results its proposal was made with."""
    asked_at: datetime
    value: Optional[float] = None
    place: Optional[int] = None
    """The place of its result among those of its study."""
    reason: Optional[str] = None
    stop: bool = False
    """The pruner has said that it should stop."""
    last_step: Optional[int] = None
    reports: Sequence[Report] = ()
    ended_at: Optional[datetime] = None


@dataclass(frozen=True)
class TrialPage:
    """A page of trials by ascending number. `next` is the `after` of the next page."""

    trials: Sequence[Trial]
    next: Optional[int] = None


@dataclass(frozen=True)
class TrialsAsked:
    """The trials that were asked for. With `done`, the study never has more."""

    trials: Sequence[Trial]
    done: bool
    state: str


@dataclass(frozen=True)
class ReportAnswer:
    """The answer to a report."""

    stop: bool


@dataclass(frozen=True)
class ParameterImportance:
    """How much a parameter matters, as a part of 1."""

    name: str
    importance: float


@dataclass(frozen=True)
class Importance:
    """How much each parameter matters, the most important first."""

    results: int
    parameters: Sequence[ParameterImportance]
