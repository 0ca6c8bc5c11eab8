"""Runs an objective that was written for Optuna, unchanged and with its pruning, in a study here. Optuna is not needed.

    from estimand import optuna

    optuna.run(objective, "digits")

The study has the parameters that the objective suggests: their bounds and values are those of the study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from estimand._sync.client import Client
from estimand.tuning import Objective, Pruned, RunningTrial


class OptunaTrial:
    """A trial as an objective of Optuna uses it."""

    def __init__(self, running: RunningTrial) -> None:
        self.number = running.number
        self.params: Mapping[str, Any] = dict(running.parameters)
        self.user_attrs: dict[str, Any] = {}
        self._running = running

    def suggest_float(self, name: str, low: float, high: float, **_options: Any) -> float:
        """The value of a parameter that is a number."""
        return float(self._value(name))

    def suggest_int(self, name: str, low: int, high: int, **_options: Any) -> int:
        """The value of a parameter that is a whole number."""
        return int(self._value(name))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """The value of a parameter that is one of some values."""
        return self._value(name)

    def report(self, value: float, step: int) -> None:
        """Reports a value on the way."""
        self._running.should_stop_after(step, value)

    def should_prune(self) -> bool:
        """The study has said that the trial should stop."""
        return self._running.should_stop

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keeps a remark for as long as the objective runs."""
        self.user_attrs[key] = value

    def _value(self, name: str) -> Any:
        if name not in self.params:
            known = ", ".join(sorted(self.params))
            raise LookupError(
                f"trial {self.number} of `{self._running.study}` has no parameter `{name}`; it has {known}"
            )
        return self.params[name]


def run(objective: Callable[[Any], float], study: str, client: Optional[Client] = None, *, go_on: bool = False) -> int:
    """Runs an objective of Optuna for each trial of a study; how many there were."""

    def value(running: RunningTrial) -> float:
        try:
            return float(objective(OptunaTrial(running)))
        except Exception as error:
            # Optuna's own exception is known by its name, so that nobody has to install it.
            if any(kind.__name__ == "TrialPruned" for kind in type(error).__mro__):
                raise Pruned from error
            raise

    return Objective(study, value).run(client, go_on=go_on)
