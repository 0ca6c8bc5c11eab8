"""Real servers for the tests: `estimand up`, killed and started again on the same address and folder."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Optional

from estimand import AsyncClient, Client, Options
from estimand.errors import UnavailableError

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("ESTIMAND_BINARY", str(ROOT / "target" / "debug" / "estimand"))
# The longest that anything may take that is waited for.
PATIENCE = 60.0
FOLDERS = "/bin", "/usr/bin"

# Under asyncio's debug mode, which unittest sets, each step that takes long is a line.
logging.getLogger("asyncio").setLevel(logging.ERROR)

# What a developer has set is not for these tests.
for variable in ("ESTIMAND_SERVER", "ESTIMAND_TOKEN", "ESTIMAND_AUTHORITY", "ESTIMAND_CERTIFICATE"):
    os.environ.pop(variable, None)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """Services and an agent in one process."""

    def __init__(self, *arguments: str, scheme: str = "http") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="estimand-python."))
        at_socket = scheme == "unix"
        self.address = f"unix:{self.folder}/socket" if at_socket else f"{scheme}://127.0.0.1:{free_port()}"
        self._arguments = arguments
        self._process: Optional[subprocess.Popen[bytes]] = None

    def start(self) -> Server:
        """Starts it, or starts it again, and waits until it is ready."""
        listen = self.address.split("//")[-1]
        allow = [word for folder in FOLDERS for word in ("--allow", folder)]
        command = [BINARY, "up", "--listen", listen, "--data-dir", str(self.folder / "data"), "--node", "node-1"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--defaults", "none", *allow, *self._arguments], stdout=log, stderr=log
            )
        until = time.monotonic() + PATIENCE
        while not self._is_ready():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < until, self.log()
            time.sleep(0.05)
        return self

    def _is_ready(self) -> bool:
        if self.address.startswith("https"):
            return "listening on" in self.log()
        if self.address.startswith("unix:"):
            return self._is_ready_at_socket()
        try:
            with urllib.request.urlopen(f"{self.address}/readyz", timeout=PATIENCE):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def _is_ready_at_socket(self) -> bool:
        with socket.socket(socket.AF_UNIX) as stream:
            try:
                stream.connect(self.address[len("unix:") :])
                stream.sendall(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                return stream.recv(64).startswith(b"HTTP/1.1 200")
            except OSError:
                return False

    def await_nodes(self, count: int) -> None:
        """Waits until so many nodes can take tasks."""
        until = time.monotonic() + PATIENCE
        with self.client() as client:
            while self._nodes_up(client) < count:
                assert time.monotonic() < until, self.log()
                time.sleep(0.05)

    @staticmethod
    def _nodes_up(client: Client) -> int:
        try:
            return sum(node.standing == "up" for node in client.capacity())
        except UnavailableError:
            return 0

    def log(self) -> str:
        """What it has written."""
        return (self.folder / "log").read_text()

    @property
    def token(self) -> str:
        """The operator's token."""
        return (self.folder / "data" / "token").read_text().strip()

    def kill(self) -> None:
        """Ends it without a chance to say so."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ends it, and removes what it kept."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self, **options: Any) -> Client:
        """A client that blocks."""
        return Client(self.address, token=self.token, options=Options(**options))

    def async_client(self) -> AsyncClient:
        """A client with `async`."""
        return AsyncClient(self.address, token=self.token)


_shared: Optional[Server] = None


def shared() -> Server:
    """A server that tests share which do not end it."""
    global _shared
    if _shared is None:
        _shared = Server()
        atexit.register(_shared.stop)
        _shared.start()
        _shared.await_nodes(1)
    return _shared
