"""Trials in a program of Python: a context that tells how it ended, and functions that are run for each trial.

    from estimand import Client, tuning

    @tuning.objective("digits")
    def accuracy(trial):
        for epoch in range(30):
            value = train(**trial.parameters)
            trial.report(epoch, value)
        return value

    accuracy.run(Client())
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Callable, Optional

from estimand._sync.client import Client
from estimand.studies import Trial

# Between two questions to a study that is paused.
PAUSE = 1.0


class Pruned(Exception):
    """Raised by `report` in a trial that should stop; leaving the trial by it tells that it ended early."""


class RunningTrial:
    """A trial that runs here, as a context: leaving it tells its result."""

    def __init__(self, client: Client, study: str, trial: Trial) -> None:
        self.study = study
        self.number = trial.number
        self.parameters: Mapping[str, Any] = trial.parameters
        self.should_stop = trial.stop
        self._client = client
        self._told = False

    def __enter__(self) -> RunningTrial:
        return self

    def report(self, step: int, value: float) -> None:
        """Reports a value on the way. Raises `Pruned` if the trial should stop."""
        if self.should_stop_after(step, value):
            raise Pruned

    def should_stop_after(self, step: int, value: float) -> bool:
        """Reports a value on the way; whether the trial should stop."""
        self.should_stop = self._client.report(self.study, self.number, step, value)
        return self.should_stop

    def tell(self, value: float) -> None:
        """Tells the value that it reached."""
        self._client.tell(self.study, self.number, value)
        self._told = True

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> bool:
        if self._told:
            return False
        if isinstance(error, Pruned):
            self._client.tell(self.study, self.number, pruned=True)
            return True
        reason = "it told no value" if error is None else f"{type(error).__name__}: {error}"
        self._client.tell(self.study, self.number, failed=reason[:1_000])
        return False


def trials(client: Client, study: str) -> Iterator[RunningTrial]:
    """The trials of a study, one after the other, until it has no more. Waits while it is paused."""
    while True:
        asked = client.ask(study)
        for trial in asked.trials:
            yield RunningTrial(client, study, trial)
        if asked.done:
            return
        if not asked.trials:
            time.sleep(PAUSE)


class Objective:
    """A function of a trial that gives its value."""

    def __init__(self, study: str, function: Callable[[RunningTrial], float]) -> None:
        self.study = study
        self.function = function

    def __call__(self, trial: RunningTrial) -> float:
        """The value of a trial, without telling it."""
        return self.function(trial)

    def run(self, client: Optional[Client] = None, *, go_on: bool = False) -> int:
        """Runs it for each trial of its study; how many there were.

        An exception ends its trial as failed, and this too unless `go_on` says otherwise.
        """
        client = client or Client()
        count = 0
        for trial in trials(client, self.study):
            count += 1
            try:
                with trial:
                    trial.tell(self.function(trial))
            except Exception:
                if not go_on:
                    raise
        return count


def objective(study: str) -> Callable[[Callable[[RunningTrial], float]], Objective]:
    """Makes a function the objective of a study."""
    return lambda function: Objective(study, function)
