"""Pictures of each page, light and dark, wide and narrow, with something to see on them: `pictures.py DIR`."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Any

from browser import NARROW, WIDE, Browser
from dashboard_case import DashboardCase
from server import Server

PAGES = {
    "overview": "#/overview",
    "data": "#/data",
    "data-name": "#/data/load1",
    "data-value": "#/data/capability_by_load/node-1",
    "registrations": "#/registrations",
    "registration": "#/registrations/disk_temperature",
    "registration-new": "#/registrations/+new",
    "estimators": "#/estimators",
    "estimator": "#/estimators/node_capability",
    "tasks": "#/tasks",
    "task": "#/tasks/training",
    "task-new": "#/tasks/+new",
    "jobs": "#/jobs",
    "job": "#/jobs/birds",
    "reservations": "#/reservations",
    "reservation": "#/reservations/r1",
}
NODES = 400
TURNS = 12


class Scene(DashboardCase):
    """What is on the pictures, of a real server; only the values of the many nodes are written by hand."""

    def addCleanup(self, *_: Any, **__: Any) -> None:
        """The server goes as a whole."""

    def prepare(self) -> None:
        register = lambda name, cmd, **fields: self.api(  # noqa: E731
            "POST", "/api/registry", {"dataName": name, "cmd": cmd, "max-Time": 1, **fields}
        )
        register("cpu", "cpu", mode="builtin", history="1h")
        register("load1", "cut -d' ' -f1 /proc/loadavg", format="number", history="1h")
        register("disk_temperature", ["/bin/sh", "-c", "echo 'no such sensor: nvme0' >&2; exit 3"])
        register("capability_by_load", "cpu.freeFraction >= 0.5 ? 1.0 : cpu.freeFraction / 0.5", mode="expr", inputs=["cpu"])
        for turn in range(TURNS):
            self.write("utilization", {f"node-{n}": self.utilization(n, turn) for n in range(1, NODES + 1)})
            self.write("estimate_a", {f"node-{n}": round(1 - self.utilization(n, turn), 3) for n in range(1, 13)})
            self.write("estimate_b", {f"node-{n}": {"value": round(0.9 - self.utilization(n, 3), 3)} for n in range(1, 12)})
        for target in ({"to": "estimate_b", "field": "/value"}, {"to": "estimate_a"}):
            self.api("PUT", "/api/bindings/node_capability", target)
        shares = {f"node-{n}": 40 + 23 * n for n in range(1, 9)}
        self.write("data_distribution", {node: [f"{node}-{item}.jpg" for item in range(60)] for node in shares})
        self.write("birds.work", {
            node: {"activity": "working", "revision": 1, "done": share * (3 + place % 3) // 8, "of": share, "fps": share / 30}
            for place, (node, share) in enumerate(shares.items())
        })
        work = "i=0; while sleep 1; do i=$((i+1)); echo epoch $i: loss 0.$((900/(i+3))); done"
        self.api("POST", "/api/tasks", {"id": "prepare", "command": "/bin/echo ready"})
        self.api("POST", "/api/tasks", {"id": "broken", "command": "/bin/sh -c 'exit 3'"})
        self.api("POST", "/api/tasks", {"id": "training", "command": ["/bin/sh", "-c", work], "resources": {"cpu": 0.5, "memory": "64MiB"}})
        self.api("POST", "/api/tasks", {"id": "large", "command": "/bin/true", "resources": {"gpu": 2}})
        self.api("POST", "/api/credits/grants", {"user": "ada", "amount": "100"})
        wanted = {"resources": {"cpu": 1}, "duration": "5m", "from": "3m", "by": "20m", "user": "ada", "value": 30}
        # The service may have its prices a little later than everything else.
        self.page.wait("a reservation", lambda: self.api("POST", "/api/reservations", wanted))
        time.sleep(20)

    @staticmethod
    def utilization(node: int, turn: int) -> float:
        rack = (node // 40) * 0.07
        return round(min(0.99, max(0.02, 0.35 + rack + 0.25 * math.sin(node * 1.7 + turn * 0.4) + 0.1 * math.sin(node * 0.13))), 3)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    server = Server().start()
    page = Browser()
    try:
        server.await_nodes(1)
        scene = Scene()
        scene.server, scene.page = server, page
        scene.prepare()
        page.open(server.address + "/")
        scene.sign_in()
        for name, place in PAGES.items():
            page.go(place)
            time.sleep(3)
            if name == "overview":
                page.choose('select[aria-label="Value"]', "utilization")
                time.sleep(1)
            for dark in (False, True):
                for size, word in ((WIDE, "wide"), (NARROW, "narrow")):
                    page.darken(dark)
                    page.resize(size, mobile=size == NARROW)
                    time.sleep(0.6)
                    page.picture(folder / f"{name}-{'dark' if dark else 'light'}-{word}.png", whole=word == "narrow")
    finally:
        page.stop()
        server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
