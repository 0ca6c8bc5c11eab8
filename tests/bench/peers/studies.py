"""Asks and tells a second, and how long an ask takes: a study here, and Optuna with each of its storages.

Each side has a study with so many finished trials of ten parameters. By turns each is asked and told some more, one after
the other, as one worker does it. Here that is two requests over HTTP, and each answer is durable.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Callable

import optuna

from estimand import Client

PARAMETERS = [f"x{number}" for number in range(10)]
# Asks and tells one trial; seconds until the answer to the ask.
Side = Callable[[], float]


def value_of(parameters: dict[str, float]) -> float:
    return sum((value - 0.3) ** 2 for value in parameters.values())


def ours(folder: Path, sampler: str, finished: int) -> tuple[Side, Callable[[], None]]:
    """A study of a service that is started for it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    data = folder / "data"
    command = ["target/release/estimand", "up", "--no-agent", "--defaults", "none", "--listen", address, "--data-dir", str(data)]
    service = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        try:
            urllib.request.urlopen(f"http://{address}/readyz", timeout=5).close()
            break
        except OSError:
            time.sleep(0.05)
    client = Client(f"http://{address}", token=(data / "token").read_text().strip())
    space = [{"name": name, "type": "float", "low": 0, "high": 1} for name in PARAMETERS]
    client.create_study({"id": "s", "direction": "minimize", "parameters": space, "sampler": sampler, "seed": 1, "patience": 0})
    left = finished
    while left:
        for trial in client.ask("s", count=min(left, 100)).trials:
            client.tell("s", trial.number, value_of(dict(trial.parameters)))
            left -= 1

    def one() -> float:
        began = time.perf_counter()
        trial = client.ask("s").trials[0]
        took = time.perf_counter() - began
        client.tell("s", trial.number, value_of(dict(trial.parameters)))
        return took

    return one, service.terminate


def theirs(storage: object, sampler: str, finished: int) -> tuple[Side, Callable[[], None]]:
    """A study of Optuna."""
    samplers = {"random": optuna.samplers.RandomSampler, "cmaes": optuna.samplers.CmaEsSampler}
    made = samplers.get(sampler, optuna.samplers.TPESampler)(seed=1)
    study = optuna.create_study(storage=storage, sampler=made)  # type: ignore[arg-type]
    draw = random.Random(1)
    space = {name: optuna.distributions.FloatDistribution(0, 1) for name in PARAMETERS}
    for _ in range(finished):
        parameters = {name: draw.random() for name in PARAMETERS}
        done = optuna.trial.create_trial(params=parameters, distributions=space, value=value_of(parameters))
        study.add_trial(done)

    def one() -> float:
        began = time.perf_counter()
        trial = study.ask()
        parameters = {name: trial.suggest_float(name, 0, 1) for name in PARAMETERS}
        took = time.perf_counter() - began
        study.tell(trial, value_of(parameters))
        return took

    return one, lambda: None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--finished", type=int, default=100, help="trials that are finished before")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=50, help="trials of a side in a round")
    parser.add_argument("--sampler", default="random", help="random, tpe, cmaes, gp or auto; Optuna's are random, cmaes and its default")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        journal = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / "journal")))
        sides = {
            "estimand": ours(folder, options.sampler, options.finished),
            "optuna, SQLite": theirs(f"sqlite:///{folder / 'optuna.db'}", options.sampler, options.finished),
            "optuna, journal": theirs(journal, options.sampler, options.finished),
            "optuna, in memory": theirs(None, options.sampler, options.finished),
        }
        rates: dict[str, list[float]] = {side: [] for side in sides}
        asks: dict[str, list[float]] = {side: [] for side in sides}
        # The first round is not counted.
        for turn in range(options.rounds + 1):
            for side, (one, _) in sides.items():
                began = time.perf_counter()
                took = [one() for _ in range(options.trials)]
                if turn:
                    rates[side].append(options.trials / (time.perf_counter() - began))
                    asks[side].extend(took)
        print(f"optuna {optuna.__version__}, {os.cpu_count()} processors, sampler {options.sampler}, {options.finished} trials before, seed 1")
        print(f"{'':20}{'asks and tells a second':>26}{'least':>8}{'most':>8}{'ask, median':>14}{'p99':>10}")
        for side, (_, end) in sides.items():
            rate, ask = rates[side], sorted(asks[side])
            p99 = ask[min(len(ask) - 1, len(ask) * 99 // 100)]
            print(
                f"{side:20}{statistics.median(rate):26.1f}{min(rate):8.1f}{max(rate):8.1f}"
                f"{1000 * statistics.median(ask):11.2f} ms{1000 * p99:7.2f} ms"
            )
            end()


if __name__ == "__main__":
    main()
