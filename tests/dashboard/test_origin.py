"""The drawing of where a value comes from: each value once, by keyboard, and the layout that it stands on."""

from __future__ import annotations

from typing import Any

from browser import NARROW, WIDE
from dashboard_case import DashboardCase

RIGHT, ENTER, TAB = "\ue014", "\ue007", "\ue004"

BOXES = """return [...document.querySelectorAll('.origin-box')].map((box) => ({
    kind: box.classList.contains('maker') ? 'maker' : 'value', name: box.querySelector('strong').textContent,
    x: Math.round(box.getBoundingClientRect().x), text: box.innerText, place: box.getAttribute('href') }))"""
FOCUSED = "return document.activeElement.classList.contains('origin-box') ? document.activeElement.innerText : ''"


class Origin(DashboardCase):
    refused = (401, 404)

    def boxes(self, count: int) -> list[dict[str, Any]]:
        """The boxes, when there are so many."""

        def drawn() -> Any:
            found = self.page.run(BOXES)
            return found if len(found) == count else None

        found: list[dict[str, Any]] = self.page.wait(f"{count} boxes", drawn, lambda: self.page.run(BOXES))
        return found

    def diamond(self) -> None:
        self.register("rhomb_source", "cut -d' ' -f1 /proc/loadavg", format="number")
        self.register("rhomb_left", "rhomb_source * 2.0", mode="expr", inputs=["rhomb_source"])
        self.register("rhomb_right", "rhomb_source + 1.0", mode="expr", inputs=["rhomb_source"])
        self.register("rhomb", "rhomb_left + rhomb_right + rhomb_source", mode="expr", inputs=["rhomb_left", "rhomb_right", "rhomb_source"])

    def test_a_value_that_is_used_twice_stands_once(self) -> None:
        self.diamond()
        self.go("#/data/rhomb/node-1", "node-1")
        boxes = self.boxes(8)
        values = {box["name"]: box for box in boxes if box["kind"] == "value"}
        self.assertEqual(sorted(values), ["rhomb", "rhomb_left", "rhomb_right", "rhomb_source"])
        self.assertTrue(all("fresh" in box["text"] and "of node-1" in box["text"] for box in values.values()), values)
        # Everything is to the right of all that was made of it.
        self.assertLess(values["rhomb"]["x"], values["rhomb_left"]["x"])
        self.assertEqual(values["rhomb_left"]["x"], values["rhomb_right"]["x"])
        self.assertLess(values["rhomb_left"]["x"], values["rhomb_source"]["x"])
        self.assertEqual(len(self.page.run("return [...document.querySelectorAll('.origin path')]")), 9)
        makers = {box["place"]: box["text"] for box in boxes if box["kind"] == "maker"}
        self.assertIn("command", makers["#/registrations/rhomb_source"])
        self.assertIn("cut -d' ' -f1 /proc/loadavg", makers["#/registrations/rhomb_source"])
        self.assertIn("expression\nrhomb_source * 2.0\n", makers["#/registrations/rhomb_left"])
        self.assertEqual(self.page.findings(), [])
        self.page.darken(True)
        self.assertEqual(self.page.findings("color-contrast"), [], "in the dark")
        self.page.darken(False)
        self.page.resize(NARROW, mobile=True)
        try:
            sizes = "const one = document.querySelector('.origin'), page = document.documentElement;"
            sizes += "return [one.scrollWidth > one.clientWidth, page.scrollWidth > page.clientWidth]"
            self.page.wait(
                "the drawing to scroll, and the page not",
                lambda: self.page.run(sizes) == [True, False],
                lambda: self.page.run(sizes),
            )
            self.assertEqual(self.page.findings(), [])
        finally:
            self.page.resize(WIDE)

    def test_boxes_are_followed_by_keyboard(self) -> None:
        self.diamond()
        self.go("#/data/rhomb/node-1", "node-1")
        self.boxes(8)
        self.page.run("document.querySelector('.origin-box').focus()")
        self.page.press(TAB)
        self.assertIn("expression", self.page.run(FOCUSED))
        title = self.page.run("return document.activeElement.title")
        self.assertIn("Made of: rhomb_left of node-1, rhomb_right of node-1, rhomb_source of node-1", title)
        # Whatever is made anew, the box keeps the focus.
        before = self.page.run(FOCUSED)
        self.page.wait("another run", lambda: self.page.run(FOCUSED) not in (before, ""), lambda: before)
        self.page.press(RIGHT)
        box: str = self.page.run(FOCUSED)
        self.assertRegex(box, "^rhomb_(left|right|source)\n")
        self.page.press(ENTER)
        name = box.split("\n")[0]
        self.page.wait("its page", lambda: self.page.run("return location.hash") == f"#/data/{name}/node-1")
        self.page.see(f"Data / {name}")

    def test_a_value_that_was_written_directly(self) -> None:
        self.write("by_hand", {"node-1": 0.25})
        self.forget("by_hand")
        self.go("#/data/by_hand/node-1", "node-1")
        (box,) = self.boxes(1)
        self.assertIn("0.25", box["text"])
        self.assertIn("written directly", box["text"])
        self.api("PUT", "/api/bindings/by_binding", {"to": "by_hand"})
        self.addCleanup(self.api, "DELETE", "/api/bindings/by_binding")
        self.page.go("#/data/by_binding/node-1")
        first, second = self.boxes(2)
        self.assertIn("serves by_hand", first["text"])
        self.assertEqual(second["name"], "by_hand")

    def test_inputs_that_are_missing(self) -> None:
        self.write("gone_in", {"node-1": 4})
        self.register("gone_out", "gone_in * 2.0", mode="expr", inputs=["gone_in"])
        self.api("DELETE", "/api/data?dataName=gone_in")
        self.go("#/data/gone_out/node-1", "node-1")
        boxes = self.boxes(3)
        lost = next(box for box in boxes if box["name"] == "gone_in")
        self.assertIn("missing", lost["text"])
        self.assertIn("no such value", lost["text"])
        # It has a registration, which gives nothing yet.
        self.register("gone_in", "/bin/echo 4", paused=True)
        boxes = self.boxes(4)
        self.assertIn("no value for this node yet", boxes[-1]["text"])
        self.assertEqual(boxes[-1]["place"], "#/registrations/gone_in")
        self.page.go("#/data/nothing_at_all/node-1")
        self.page.see("no registration makes it")

    def test_more_inputs_than_are_drawn(self) -> None:
        inputs = [f"many_{place}" for place in range(15)]
        origin = {"dataName": "many", "version": 3, "run": 7, "inputs": inputs}
        self.api("POST", "/api/data", {"dataName": "many", "nodeName": "node-1", "dataValue": 1, "provenance": origin})
        self.forget("many")
        self.go("#/data/many/node-1", "node-1")
        boxes = self.boxes(14)
        self.assertEqual(boxes[1]["text"].split("\n"), ["run", "no longer registered", "run 7, version 3; 3 more inputs not drawn"])

    def test_a_chain_ends_and_a_circle_does(self) -> None:
        for place in range(9):
            origin = {"dataName": f"chain_{place}", "inputs": [f"chain_{place + 1}"]}
            self.api("POST", "/api/data", {"dataName": f"chain_{place}", "nodeName": "n", "dataValue": 1, "provenance": origin})
            self.forget(f"chain_{place}")
        self.go("#/data/chain_0/n", "n")
        boxes = self.boxes(10)
        self.assertEqual([box["name"] for box in boxes if box["kind"] == "value"], [f"chain_{place}" for place in range(5)])
        self.assertIn("1 more input not drawn", boxes[-1]["text"])
        origin = {"dataName": "chain_1", "inputs": ["chain_0"]}
        self.api("POST", "/api/data", {"dataName": "chain_1", "nodeName": "n", "dataValue": 1, "provenance": origin})
        self.boxes(4)

    def test_the_layout(self) -> None:
        script = """const [keys, edges, done] = arguments;
        import('/assets/lib/layers.js').then(({ layers }) => done(layers(keys, edges, { width: 10, height: 4, across: 6, below: 2 })))"""
        laid = lambda keys, *edges: self.page.run_async(script, list(keys), [list(edge) for edge in edges])  # noqa: E731
        alone = laid("a")
        self.assertEqual((alone["width"], alone["height"], alone["boxes"]), (10, 4, [{"key": "a", "x": 0, "y": 0}]))
        # The edge over two columns goes by the box between.
        found = laid("abc", "ab", "bc", "ac")
        self.assertEqual([box["x"] for box in found["boxes"]], [0, 16, 32])
        long = next(edge["points"] for edge in found["edges"] if (edge["from"], edge["to"]) == ("a", "c"))
        between = next(box for box in found["boxes"] if box["key"] == "b")
        self.assertEqual([x for x, _ in long], [10, 16, 26, 32])
        self.assertFalse(between["y"] <= long[1][1] <= between["y"] + 4, found)
        # Boxes stand where their lines don't cross.
        found = laid("abcde", "ab", "ac", "cd", "be")
        rows = {box["key"]: box["y"] for box in found["boxes"]}
        self.assertEqual(rows["b"] < rows["c"], rows["e"] < rows["d"])
        # A circle ends.
        found = laid("ab", "ab", "ba")
        self.assertEqual([box["x"] for box in found["boxes"]], [0, 16])
        self.assertEqual(len(found["edges"]), 2)
