"""The overview: the heat map with a thousand and with ten thousand nodes, by mouse and keyboard; what fails; what runs."""

from __future__ import annotations

import os
import threading

from dashboard_case import DashboardCase

# The least that is smooth: this browser draws without a graphics processor, beside everything else that runs here.
LEAST_FRAMES = 20
# In rounds of four seconds: ten minutes with ESTIMAND_LONG.
LONG = 150 if os.environ.get("ESTIMAND_LONG") else 1
# Megabytes that a page may hold more after that than before.
MOST_GROWTH = 40


class Overview(DashboardCase):
    def label(self) -> str:
        found: str = self.page.run("return document.querySelector('.heatmap > canvas')?.getAttribute('aria-label') ?? ''")
        return found

    def show(self, name: str) -> None:
        self.page.choose('select[aria-label="Value"]', name)

    def colours(self) -> int:
        """How many colours the map has."""
        found: int = self.page.run(
            """const canvas = document.querySelector('.heatmap > canvas');
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            return new Set(new Uint32Array(data.buffer)).size"""
        )
        return found

    def test_a_thousand_and_ten_thousand_nodes(self) -> None:
        for count in (1_000, 10_000):
            name = f"heat_{count}"
            self.write_many(name, count)
            self.forget(name)
            self.page.open("about:blank")
            self.page.open(self.server.address + "/")
            self.show(name)
            self.page.wait(f"{count} nodes", lambda: f"of {count} nodes" in self.label(), self.label)
            self.assertGreater(self.colours(), 30)
            frames, longest = self.frames(name, count, LONG if count == 1_000 else 1)
            print(f"\n{count} nodes live: {frames:.0f} frames/s, longest {longest:.0f} ms, heap {self.heap()} MB", flush=True)
            self.assertGreater(frames, LEAST_FRAMES)

    def heap(self) -> int:
        """What the page has in memory, without what it has no use for."""
        self.page.devtools("HeapProfiler.collectGarbage", {})
        return int(self.page.run("return performance.memory.usedJSHeapSize") / 1e6)

    def frames(self, name: str, count: int, rounds: int) -> tuple[float, float]:
        """Frames a second while a tenth of the nodes changes ten times a second, and the longest pause between two."""
        before = self.heap()
        stop = threading.Event()

        def change() -> None:
            turn = 0
            while not stop.wait(0.1):
                turn += 1
                nodes = range(turn % 10, count, 10)
                self.write(name, {f"node-{place}": (place * 37 + turn * 11) % 1000 / 10 for place in nodes})

        writer = threading.Thread(target=change)
        writer.start()
        try:
            measured = [self.measure() for _ in range(rounds)]
        finally:
            stop.set()
            writer.join()
        self.assertLess(self.heap(), before + MOST_GROWTH, "what is gone is not kept")
        return sum(frames for frames, _ in measured) / rounds, max(longest for _, longest in measured)

    def measure(self) -> tuple[float, float]:
        frames, longest = self.page.run_async(
            """const done = arguments[0], began = performance.now(); let frames = 0, last = began, longest = 0;
            const step = (now) => { frames += 1; longest = Math.max(longest, now - last); last = now;
              if (now - began < 4000) requestAnimationFrame(step); else done([frames / ((now - began) / 1000), longest]); };
            requestAnimationFrame(step)"""
        )
        return frames, longest

    def test_the_map_by_keyboard_and_mouse(self) -> None:
        self.write("heat_keys", {"node-1": 10, "node-2": 20, "node-10": 30})
        self.forget("heat_keys")
        self.page.open("about:blank")
        self.page.open(self.server.address + "/")
        self.show("heat_keys")
        self.page.wait("the map", lambda: "of 3 nodes" in self.label(), self.label)
        self.page.run("document.querySelector('.heatmap > canvas').focus()")
        self.page.press("\ue014")
        self.page.see("node-1: 10", ".tip")
        self.page.press("\ue014")
        self.page.press("\ue014")
        self.page.see("node-10: 30", ".tip")
        # A change is told where one is.
        self.write("heat_keys", {"node-10": 31})
        self.page.see("node-10: 31", ".tip")
        self.page.press("\ue007")
        self.page.wait("the page of the node", lambda: self.page.text("h1") == "node-10")

    def test_parts_of_a_value(self) -> None:
        self.write("heat_parts", {"node-1": {"a": 1, "b": {"c": 5}}, "node-2": {"a": 2, "b": {"c": 6}}})
        self.write("heat_text", {"node-1": "text"})
        self.forget("heat_parts")
        self.forget("heat_text")
        self.page.open("about:blank")
        self.page.open(self.server.address + "/")
        self.show("heat_parts")
        self.page.choose('select[aria-label="Part of the value"]', "/b/c")
        self.page.wait("the part", lambda: "heat_parts/b/c of 2 nodes, from 5 to 6" in self.label(), self.label)
        self.show("heat_text")
        self.page.see("These values have no number.")

    def test_what_fails_is_there_with_its_reason_until_it_does_not(self) -> None:
        self.register("overview_fails", "/bin/sh -c 'echo \"no such sensor\" >&2; exit 3'", paused=True)
        self.api("PATCH", "/api/registry", {"registrations": [self.failing("exit 3")]})
        self.page.see("no such sensor")
        self.page.see("1 failing")
        self.page.click("overview_fails")
        self.page.wait("its page", lambda: self.page.text("h1") == "overview_fails")
        self.page.see("it ended with exit 3")
        self.api("PATCH", "/api/registry", {"registrations": [self.failing("exit 0")]})
        self.page.go("#/overview")
        self.page.see("Nothing fails.")

    @staticmethod
    def failing(end: str) -> dict[str, object]:
        return {"dataName": "overview_fails", "cmd": ["/bin/sh", "-c", f"echo 'no such sensor' >&2; echo 1; {end}"], "max-Time": 1}

    def test_what_runs(self) -> None:
        self.api("POST", "/api/tasks", {"id": "overview-runs", "command": "/bin/sleep 1000"})
        self.addCleanup(self.api, "DELETE", "/api/tasks/overview-runs")
        self.addCleanup(self.api, "GET", "/api/tasks/overview-runs?waitMs=20000")
        self.addCleanup(self.api, "POST", "/api/tasks/overview-runs/cancel")
        self.page.see("The list of tasks needs a token.")
        self.sign_in()
        self.page.see("overview-runs")
        self.page.see("RUNNING")
