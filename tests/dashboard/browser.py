"""A real Chromium, steered by WebDriver: JSON over HTTP, of which this is the part that the tests need."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Callable, Optional

from server import PATIENCE, free_port

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
WIDE = (1280, 900)
NARROW = (390, 844)


class Browser:
    """One window. Waits for what is looked for, and keeps what the console said."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="estimand-browser."))
        port = free_port()
        self._driver = subprocess.Popen(
            ["chromedriver", f"--port={port}", "--log-level=SEVERE"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._base = f"http://127.0.0.1:{port}"
        self._session = ""
        self._said: list[dict[str, Any]] = []
        try:
            self.wait("the driver", lambda: self._call("GET", "/status")["ready"])
            self._session = "/session/" + self._call("POST", "/session", self._capabilities())["sessionId"]
            self.resize(WIDE)
        except BaseException:
            self.stop()
            raise

    def _capabilities(self) -> dict[str, Any]:
        # Root has no sandbox, and containers a small /dev/shm.
        words = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--user-data-dir={self._folder}"]
        options = {"args": [*words, "--disable-gpu", "--enable-precise-memory-info", "--lang=en-GB", "--force-device-scale-factor=1"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        return {"capabilities": {"alwaysMatch": wanted}}

    def stop(self) -> None:
        """Ends it with all that it started."""
        try:
            if self._session:
                self._call("DELETE", self._session)
        except (OSError, AssertionError):
            pass
        try:
            os.killpg(self._driver.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._driver.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _call(self, method: str, path: str, body: Optional[dict[str, Any]] = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data=data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            said = error.read().decode()
            raise DriverError(said[:600]) from None

    def _ask(self, method: str, path: str, body: Optional[dict[str, Any]] = None) -> Any:
        return self._call(method, self._session + path, body)

    # What is done.

    def open(self, address: str) -> None:
        self._ask("POST", "/url", {"url": address})

    def resize(self, size: tuple[int, int], mobile: bool = False) -> None:
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)

    def darken(self, dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        # Colours that change slowly would be looked at in between.
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.devtools("Emulation.setEmulatedMedia", {"features": [scheme, still]})

    def hide(self, hidden: bool) -> None:
        """As if another page were before this one, or no more."""
        script = """const hidden = arguments[0];
        Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
        document.dispatchEvent(new Event('visibilitychange'))"""
        self.run(script, hidden)

    def devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def run(self, script: str, *arguments: Any) -> Any:
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script: str, *arguments: Any) -> Any:
        """The last argument of the script is a function that takes its result."""
        return self._ask("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def go(self, place: str) -> None:
        """To another page of the dashboard, as a link would."""
        self.run("location.hash = arguments[0]", place)

    def click(self, text: str, within: str = "body") -> None:
        """Presses the button or link of this text, when it is there."""

        def press() -> bool:
            # What is made anew meanwhile is looked for again.
            element = self._named(text, within)
            return element is not None and self._ask("POST", f"/element/{element[_ELEMENT]}/click", {}) is None

        self.wait(f"something called {text!r}", press)

    def _named(self, text: str, within: str) -> Any:
        return self.run(
            """return [...document.querySelectorAll(arguments[1] + ' :is(button, a, summary)')].find((one) =>
            one.textContent.trim() === arguments[0] && one.checkVisibility() && !one.disabled) ?? null""",
            text,
            within,
        )

    def find(self, selector: str) -> Any:
        script = "return [...document.querySelectorAll(arguments[0])].find((one) => one.checkVisibility()) ?? null"
        return self.wait(f"an element {selector}", lambda: self.run(script, selector))

    def fill(self, name: str, text: str, within: str = "form") -> None:
        """Types into the field of a form."""
        element = self.find(f'{within} [name="{name}"]')
        tag = self.run("return arguments[0].tagName", element)
        if tag == "SELECT":
            self.choose(f'{within} [name="{name}"]', text)
            return
        self._ask("POST", f"/element/{element[_ELEMENT]}/clear", {})
        self.type(element, text)

    def type(self, element: Any, text: str) -> None:
        if text:
            self._ask("POST", f"/element/{element[_ELEMENT]}/value", {"text": text})

    def choose(self, selector: str, value: str) -> None:
        script = """const select = arguments[0];
        if (![...select.options].some((option) => option.value === arguments[1])) return false;
        select.value = arguments[1];
        select.dispatchEvent(new Event('change', { bubbles: true }));
        return true"""
        self.wait(f"the choice {value!r}", lambda: self.run(script, self.find(selector), value))

    def press(self, key: str) -> None:
        """A key at whatever has the focus."""
        keys = {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": list(keys)}]})

    # What is seen.

    def text(self, selector: str = "main") -> str:
        found: str = self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        return found

    def see(self, text: str, selector: str = "main") -> None:
        """Waits until a text is shown."""
        self.wait(f"{text!r} in {selector}", lambda: text in self.text(selector), lambda: self.text(selector))

    def gone(self, text: str, selector: str = "main") -> None:
        self.wait(f"{text!r} to go from {selector}", lambda: text not in self.text(selector), lambda: self.text(selector))

    def error_at(self, name: str, part: str) -> None:
        """Waits until a field is marked as wrong, and says so."""
        script = """const field = [...document.querySelectorAll('[name="' + arguments[0] + '"]')].find((one) => one.checkVisibility());
        if (field?.getAttribute('aria-invalid') !== 'true') return '';
        return field.getAttribute('aria-describedby').split(' ').map((id) => document.getElementById(id).textContent).join(' ')"""
        self.wait(f"{part!r} at {name}", lambda: part in self.run(script, name), lambda: self.text("form, dialog"))

    def wait(self, what: str, look: Callable[[], Any], shown: Callable[[], Any] = lambda: "") -> Any:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                found = look()
            except (urllib.error.URLError, ConnectionError, DriverError) as error:
                found, shown = None, (lambda error=error: error)
            if found:
                return found
            assert time.monotonic() < end, f"{what}: {shown()}"
            time.sleep(0.05)

    def picture(self, file: Path, whole: bool = False) -> None:
        taken = self.devtools("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole})
        file.write_bytes(base64.b64decode(taken["data"]))

    def said(self) -> list[dict[str, Any]]:
        """Errors that the console had since the last look."""
        return [entry for entry in self._ask("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]

    def findings(self, only: str = "") -> list[str]:
        """What axe finds wrong with the page as it is, by one of its rules or all."""
        source = Path(os.environ["ESTIMAND_AXE"]).read_text()
        self.run(f"if (!window.axe) {{ {source}; window.axe = axe ?? window.axe }}")
        found = self.run_async(
            """const [only, done] = arguments;
            axe.run(document, { resultTypes: ['violations'], ...(only ? { runOnly: [only] } : {}) }).then(({ violations }) => done(violations.map(({ id, help, nodes }) =>
              id + ': ' + help + ': ' + nodes.slice(0, 3).map((node) => node.html + ' ' + node.any.map((one) => one.message).join(' ')).join(' | '))),
              (error) => done(['axe: ' + error]))""",
            only,
        )
        return list(found)


class DriverError(AssertionError):
    """The driver refused a command."""
