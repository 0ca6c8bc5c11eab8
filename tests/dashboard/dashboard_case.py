"""What all tests of the dashboard share: one browser, one server."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import time
import unittest
import urllib.request
from typing import Any, Optional

from browser import Browser
from server import BINARY, PATIENCE, Server, shared

_browser: Optional[Browser] = None


def browser() -> Browser:
    """The browser that tests share."""
    global _browser
    if _browser is None:
        _browser = Browser()
        atexit.register(_browser.stop)
    return _browser


class DataService(Server):
    """A data service without the others, which makes no token."""

    token = "estimand_of-the-tests-of-the-dashboard"

    def start(self) -> DataService:
        words = ["--listen", self.address.split("//")[1], "--data-dir", str(self.folder / "data")]
        with (self.folder / "log").open("ab") as log:
            environment = {**os.environ, "ESTIMAND_TOKEN": self.token}
            self._process = subprocess.Popen([BINARY, "data", *words], stdout=log, stderr=log, env=environment)
        end = time.monotonic() + PATIENCE
        while not self._is_ready():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.05)
        return self


class DashboardCase(unittest.TestCase):
    """A test that begins on the dashboard of a server, and ends without an error on the console."""

    #: Statuses of answers that the test brings about; the console says them. Each test begins on the overview without a token,
    #: which asks for the tasks.
    refused: tuple[int, ...] = (401,)
    #: The service goes away in this test.
    goes_away = False
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = shared()

    def setUp(self) -> None:
        self.page = browser()
        self.page.said()
        # Another document: what the last test was signed in with is gone.
        self.page.open("about:blank")
        self.page.open(self.server.address + "/")

    def tearDown(self) -> None:
        allowed = [f"status of {status} " for status in self.refused]
        allowed += ["net::ERR_"] if self.goes_away else []
        unexpected = [
            entry["message"]
            for entry in self.page.said()
            if entry["source"] != "network" or not any(part in entry["message"] for part in allowed)
        ]
        self.assertEqual(unexpected, [])

    def sign_in(self, token: Optional[str] = None) -> None:
        self.page.click("Sign in", "header")
        self.page.fill("token", token or self.server.token, "dialog")
        self.page.click("Sign in", "dialog")
        self.page.see("Sign out", "header")

    def go(self, place: str, heading: str) -> None:
        self.page.go(place)
        self.page.wait(f"the page {heading}", lambda: self.page.text("h1") == heading, lambda: self.page.text())

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """A request of the operator's."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server.address + path, data=data, method=method)
        request.add_header("Authorization", f"Bearer {self.server.token}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def register(self, name: str, command: str, **fields: Any) -> None:
        """A registration that runs, and is gone when the test is."""
        when = {} if "max-Time" in fields else {"max-Time": 1}
        self.api("POST", "/api/registry", {"dataName": name, "cmd": command, **when, **fields})
        self.addCleanup(self.unregister, name)
        if not fields.get("paused"):
            self.page.wait(f"a value of {name}", lambda: self.api("GET", f"/api/data?dataName={name}"))

    def unregister(self, name: str) -> None:
        self.api("DELETE", f"/api/registry/{name}?force=true")
        self.api("DELETE", f"/api/data?dataName={name}")

    def write(self, name: str, values: dict[str, Any]) -> None:
        """Writes the values of these nodes, together."""
        writes = [{"dataName": name, "nodeName": node, "dataValue": value} for node, value in values.items()]
        self.api("POST", "/api/data/batch", writes)

    def write_many(self, name: str, count: int, turn: int = 0) -> None:
        """Writes values of so many nodes, others at each turn."""
        self.write(name, {f"node-{place}": (place * 37 + turn * 11) % 1000 / 10 for place in range(count)})

    def forget(self, name: str) -> None:
        self.addCleanup(self.api, "DELETE", f"/api/data?dataName={name}")

    def token(self, name: str, role: str, **fields: Any) -> str:
        made = self.api("POST", "/api/tokens", {"name": name, "role": role, **fields})
        self.addCleanup(self.api, "DELETE", f"/api/tokens/{name}")
        token: str = made["token"]
        return token
