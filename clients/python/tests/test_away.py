"""A server that is killed and started again while a mirror, a log, events and an upload are under way."""

from __future__ import annotations

import threading
import time
import unittest
from pathlib import Path
from typing import Callable

from server import PATIENCE, Server, free_port, shared

from estimand import Client, Write
from estimand.errors import ConnectError, UnreachableError


def until(what: str, holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)


class Away(unittest.TestCase):
    def setUp(self) -> None:
        self.server = Server().start()
        self.addCleanup(self.server.stop)
        self.client = self.server.client(piece=64 * 1024)
        self.addCleanup(self.client.close)
        self.failures: list[BaseException] = []

    def in_thread(self, call: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                call()
            except BaseException as error:
                self.failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def test_what_is_followed_goes_on_when_the_server_is_back(self) -> None:
        flag = self.server.folder / "flag"
        script = f"echo begin; while [ ! -e {flag} ]; do sleep 0.1; done; echo end"
        before = self.client.tasks(limit=1).revision
        # It goes on however long the start takes: it runs without a lease.
        task = self.client.submit({"command": ["/bin/sh", "-c", script], "onLoss": "wait"})
        lines: list[str] = []
        states: list[str] = []

        def events() -> None:
            for event in self.client.events(after=before, id=task.id):
                states.append(event.to)
                if event.to == "SUCCEEDED":
                    return

        threads = [
            self.in_thread(lambda: lines.extend(line.text for line in self.client.logs(task.id, follow=True))),
            self.in_thread(events),
            self.in_thread(lambda: self.client.wait(task.id, check=True)),
        ]
        self.client.put_all([Write("cpu", "a", 1), Write("cpu", "b", 1)])
        with self.client.mirror("cpu", "load") as values:
            until("the task to run", lambda: "RUNNING" in states)
            self.server.kill()
            until("the mirror to notice", lambda: not values.is_connected)
            self.assertIsInstance(values.trouble, UnreachableError)
            self.assertEqual(dict(values["cpu"]), {"a": 1, "b": 1}, "the last values stay")
            self.server.start()
            with self.server.client() as other:
                other.put_all([Write("cpu", "a", 2), Write("load", "a", 2)])
                other.delete_values("cpu", "b")
            picture = values.picture
            while dict(picture["cpu"]) != {"a": 2}:
                picture = values.wait(picture, timeout=PATIENCE)
            self.assertEqual(dict(picture["load"]), {"a": 2})
            until("the mirror to be connected", lambda: values.is_connected and values.trouble is None)
        flag.touch()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual((self.failures, lines), ([], ["begin", "end"]))
        self.assertEqual((states[0], states[-1]), ("QUEUED", "SUCCEEDED"))
        self.assertEqual(len(states), len(set(states)), "no event comes twice")

    def test_an_upload_goes_on_when_the_server_is_back(self) -> None:
        content = bytes(range(256)) * 32 * 1024
        local = self.server.folder / "local"
        local.write_bytes(content)
        thread = self.in_thread(lambda: self.client.upload(local, "large"))
        part = self.server.folder / "data"
        until("some of it to come", lambda: _bytes_below(part) > len(content) // 8)
        self.server.kill()
        self.server.start()
        thread.join(PATIENCE)
        self.assertEqual(self.failures, [])
        self.client.download("large", self.server.folder / "back")
        self.assertEqual((self.server.folder / "back").read_bytes(), content)


class Absent(unittest.TestCase):
    def test_a_request_says_that_nothing_answers(self) -> None:
        address = f"http://127.0.0.1:{free_port()}"
        with Client(address, token="t") as client:
            with self.assertRaisesRegex(ConnectError, f"{address}/api/nodes does not answer: cannot connect"):
                client.nodes()
            with self.assertRaisesRegex(UnreachableError, address), client.mirror("cpu", timeout=0.5):
                pass
            with self.assertRaises(ConnectError):
                client.wait("t1", timeout=0.5)

    def test_another_service_is_asked_for_what_one_does_not_serve(self) -> None:
        server = shared()
        nobody = f"http://127.0.0.1:{free_port()}"
        with Client(nobody, token=server.token, others=[server.address]) as client:
            client.put("others", "n", 1)
            self.assertIn("node-1", [node.node_name for node in client.nodes()])
            with client.mirror("others") as values:
                self.assertEqual(values["others"]["n"], 1)


def _bytes_below(folder: Path) -> int:
    found = 0
    for file in folder.rglob("*"):
        if file.is_file() and "files" in file.parts:
            found += file.stat().st_size
    return found


if __name__ == "__main__":
    unittest.main()
