"""The example, as it stands, over two real nodes."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path

from server import BINARY, FOLDERS, PATIENCE, Server

from estimand import Write

CLIENT = Path(__file__).resolve().parents[1]


class Scheduler(unittest.TestCase):
    def setUp(self) -> None:
        self.server = Server().start()
        self.addCleanup(self.server.stop)
        self.client = self.server.client()
        self.addCleanup(self.client.close)
        self.start_second_node()

    def start_second_node(self) -> None:
        allow = [word for folder in FOLDERS for word in ("--allow", folder)]
        command = [BINARY, "agent", "--server", self.server.address, "--node", "node-2", *allow]
        environment = {**os.environ, "ESTIMAND_TOKEN": self.server.token}
        folder = ["--data-dir", str(self.server.folder / "node-2")]
        with (self.server.folder / "agent.log").open("wb") as log:
            agent = subprocess.Popen([*command, *folder], env=environment, stdout=log, stderr=log)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.terminate)
        self.server.await_nodes(2)

    def schedule(self, parts: int) -> list[list[str]]:
        paths = os.pathsep.join([str(CLIENT / "src"), os.environ.get("PYTHONPATH", "")])
        environment = {
            **os.environ,
            "ESTIMAND_SERVER": self.server.address,
            "ESTIMAND_TOKEN": self.server.token,
            "PYTHONPATH": paths,
        }
        command = [sys.executable, str(CLIENT / "examples" / "scheduler.py"), str(parts), "--", "/bin/echo", "part"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted(line.split(": part ") for line in done.stdout.splitlines())

    def test_parts_go_where_the_facts_say_and_a_swap_changes_that(self) -> None:
        self.client.put_all([Write("by_count", "node-1", 1), Write("by_count", "node-2", 3)])
        self.client.put_all([Write("by_hand", "node-1", 2), Write("by_hand", "node-2", 0)])
        self.client.bind("free_processors", "by_count")
        # Three fit on the second node. The fourth finds both nodes alike, or one that is free again.
        parts = self.schedule(4)
        self.assertEqual(sorted(part for _, part in parts), ["0", "1", "2", "3"])
        self.assertLessEqual({("node-2", "0"), ("node-2", "1")}, {(node, part) for node, part in parts})
        self.client.bind("free_processors", "by_hand")
        self.assertEqual(self.schedule(3), [["node-1", "0"], ["node-1", "1"], ["node-1", "2"]])


if __name__ == "__main__":
    unittest.main()
