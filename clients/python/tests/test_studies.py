"""Studies of tuning, against a real server."""

from __future__ import annotations

import unittest
import uuid
from typing import cast

from server import shared

from estimand import optuna, tuning
from estimand.errors import ConflictError, InvalidInputError, NotFoundError
from estimand.studies import StudyDocument


def document(**more: object) -> StudyDocument:
    parameters = [
        {"name": "x", "type": "float", "low": -1, "high": 1},
        {"name": "y", "type": "choice", "values": ["a", "b"]},
    ]
    given = {"id": f"s{uuid.uuid4().hex[:8]}", "direction": "minimize", "parameters": parameters, "seed": 7}
    return cast(StudyDocument, {**given, **more})


class Studies(unittest.TestCase):
    def setUp(self) -> None:
        self.client = shared().client()
        self.addCleanup(self.client.close)

    def test_a_study_is_asked_and_told_until_it_is_over(self) -> None:
        given = document(stop={"trials": 5}, enqueued=[{"x": 0.5, "y": "a"}])
        study = self.client.create_study(given)
        self.assertEqual((study.state, study.seed), ("RUNNING", 7))
        self.assertEqual(self.client.create_study(given).id, study.id)
        with self.assertRaises(ConflictError):
            self.client.create_study({**given, "seed": 8})
        first = self.client.ask(study.id, key="first").trials[0]
        self.assertEqual(self.client.ask(study.id, key="first").trials[0], first)
        self.assertEqual(first.parameters, {"x": 0.5, "y": "a"})
        self.assertFalse(self.client.report(study.id, first.number, 1, 0.5))
        self.assertEqual(self.client.tell(study.id, first.number, 0.25).state, "COMPLETE")
        with self.assertRaises(ConflictError):
            self.client.tell(study.id, first.number, 0.5)
        for trial in tuning.trials(self.client, study.id):
            with trial:
                trial.tell(trial.parameters["x"] ** 2)
        over = self.client.study(study.id)
        self.assertEqual((over.is_over, over.reason, over.trials.complete), (True, "trials", 5))
        best = self.client.best(study.id)
        assert over.best is not None
        self.assertEqual((best.number, best.value), (over.best.number, over.best.value))
        self.assertEqual(len(self.client.trials(study.id, states=["COMPLETE"]).trials), 5)
        self.assertEqual([report.value for report in self.client.trial(study.id, first.number).reports], [0.5])
        self.assertEqual(self.client.importance(study.id).results, 5)
        self.assertIn(study.id, [found.id for found in self.client.studies(states=["OVER"]).studies])
        self.client.delete_study(study.id)
        with self.assertRaises(NotFoundError):
            self.client.study(study.id)

    def test_an_objective_runs_for_each_trial_and_its_failures_are_told(self) -> None:
        study = self.client.create_study(document(stop={"trials": 4}))

        @tuning.objective(study.id)
        def objective(trial: tuning.RunningTrial) -> float:
            if trial.number == 1:
                raise ValueError("out of range")
            trial.report(1, 0.1)
            return float(trial.parameters["x"])

        self.assertGreaterEqual(objective.run(self.client, go_on=True), 4)
        failed = self.client.trial(study.id, 1)
        self.assertEqual((failed.state, failed.reason), ("FAILED", "ValueError: out of range"))

    def test_a_trial_that_should_stop_is_told_as_pruned(self) -> None:
        pruner = {"name": "median", "leastTrials": 1, "firstStep": 1}
        study = self.client.create_study(document(pruner=pruner, sampler="random"))
        for value in (0.0, 1.0):
            running = tuning.RunningTrial(self.client, study.id, self.client.ask(study.id).trials[0])
            with running:
                running.report(1, value)
                running.report(2, value)
                running.tell(value)
        self.assertEqual([trial.state for trial in self.client.trials(study.id).trials], ["COMPLETE", "PRUNED"])

    def test_an_objective_of_optuna_runs_unchanged(self) -> None:
        class TrialPruned(Exception):
            pass

        def objective(trial: optuna.OptunaTrial) -> float:
            x: float = trial.suggest_float("x", -1, 1)
            more = float(trial.suggest_categorical("y", ["a", "b"]) == "b")
            for step in range(1, 4):
                trial.report(abs(x) + more, step)
                if trial.should_prune():
                    raise TrialPruned
            return abs(x) + more

        pruner = {"name": "median", "leastTrials": 1, "firstStep": 1}
        study = self.client.create_study(document(pruner=pruner, sampler="random", stop={"trials": 8}))
        self.assertGreaterEqual(optuna.run(objective, study.id, self.client), 8)
        states = {trial.state for trial in self.client.trials(study.id).trials}
        self.assertEqual(states, {"COMPLETE", "PRUNED"})
        with self.assertRaisesRegex(LookupError, "no parameter `z`"):
            other = self.client.create_study(document(stop={"trials": 1}))
            optuna.run(lambda trial: float(trial.suggest_float("z", 0, 1)), other.id, self.client)

    def test_a_wrong_study_is_refused_by_field(self) -> None:
        with self.assertRaisesRegex(InvalidInputError, "direction"):
            self.client.create_study({**document(), "direction": "up"})

    def test_a_paused_study_has_no_trials(self) -> None:
        study = self.client.create_study(document())
        self.assertEqual(self.client.pause_study(study.id).state, "PAUSED")
        asked = self.client.ask(study.id)
        self.assertEqual((list(asked.trials), asked.done), ([], False))
        self.assertEqual(self.client.resume_study(study.id).state, "RUNNING")
        self.assertEqual(len(self.client.ask(study.id, count=2).trials), 2)
        self.assertEqual(self.client.stop_study(study.id).reason, "stopped")
        self.assertTrue(self.client.ask(study.id).done)


class AsyncStudies(unittest.IsolatedAsyncioTestCase):
    async def test_the_other_half_asks_and_tells(self) -> None:
        async with shared().async_client() as client:
            study = await client.create_study(document())
            trial = (await client.ask(study.id)).trials[0]
            await client.tell(study.id, trial.number, 0.5)
            self.assertEqual((await client.best(study.id)).value, 0.5)
