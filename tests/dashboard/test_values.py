"""The pages about values: names, one name, one value and where it comes from; bindings and what they serve."""

from __future__ import annotations

import re
import urllib.request

from dashboard_case import DashboardCase
from server import PATIENCE


class Data(DashboardCase):
    def test_names_and_their_states(self) -> None:
        self.write("names_written", {"node-1": 1, "node-2": 2})
        self.forget("names_written")
        self.api("POST", "/api/data", {"dataName": "names_old", "nodeName": "n", "dataValue": 1, "validFor": 0.5})
        self.forget("names_old")
        self.page.go("#/data")
        self.page.see("names_written")
        self.page.see("1 stale")
        self.page.type(self.page.find('input[type="search"]'), "names_o")
        self.page.gone("names_written")
        self.page.see("names_old")
        self.page.type(self.page.find('input[type="search"]'), "xyz")
        self.page.see("No name fits.")

    def test_values_change_as_they_are_written(self) -> None:
        self.write("live", {"node-1": 1.5, "node-2": {"a": [1, "text"]}})
        self.forget("live")
        self.go("#/data/live", "live")
        self.page.see('{"a":[1,"text"]}')
        self.write("live", {"node-1": 7.25, "node-3": True})
        self.page.see("7.25")
        self.page.see("node-3")
        self.page.see("3 nodes")
        self.api("DELETE", "/api/data?dataName=live&dataNode=node-2")
        self.page.gone("node-2")
        # What has changed is drawn.
        self.page.wait("a line", lambda: self.page.run("return Boolean(document.querySelector('.spark path'))"))

    def test_ten_thousand_rows(self) -> None:
        self.write_many("rows", 10_000)
        self.forget("rows")
        self.go("#/data/rows", "rows")
        self.page.see("10,000 nodes")
        self.page.see("The first 100 of 10000 are shown.")
        rows = "return document.querySelectorAll('tbody tr').length"
        self.assertEqual(self.page.run(rows), 100)
        self.page.click("Show more")
        self.page.wait("more rows", lambda: self.page.run(rows) == 400)
        self.page.type(self.page.find('input[type="search"]'), "node-9999")
        self.page.wait("one row", lambda: self.page.run(rows) == 1)
        self.page.click("node-9999")
        self.page.see("written directly")

    def test_a_past_is_drawn_and_a_value_says_where_it_comes_from(self) -> None:
        self.register("origin_in", "cut -d' ' -f1 /proc/loadavg", format="number", history="1h")
        self.register("origin_out", "origin_in * 2.0", mode="expr", inputs=["origin_in"])
        self.page.wait("a past", lambda: len(self.api("GET", "/api/data/history?dataName=origin_in")) > 2)
        self.go("#/data/origin_in", "origin_in")
        self.page.find(".uplot canvas")
        label = self.page.run("return document.querySelector('.chart').getAttribute('aria-label')")
        self.assertIn("origin_in over time. node-1: last", label)
        self.go("#/data/origin_out/node-1", "node-1")
        self.page.see("expression\norigin_in * 2.0")
        self.page.see("cut -d' ' -f1 /proc/loadavg")
        self.page.see(", version 1")


    def test_a_page_that_nobody_looks_at_holds_no_stream(self) -> None:
        def watches() -> int:
            with urllib.request.urlopen(self.server.address + "/metrics", timeout=PATIENCE) as answer:
                return int(re.search(r"^estimand_watchers (\d+)$", answer.read().decode(), re.MULTILINE)[1])

        self.write("unseen", {"node-1": 1})
        self.forget("unseen")
        self.go("#/data/unseen", "unseen")
        self.page.see("node-1")
        held = watches()
        self.page.hide(True)
        self.page.wait("the end of its watch", lambda: watches() < held, watches)
        self.write("unseen", {"node-1": 777.5})
        self.page.hide(False)
        self.page.see("777.5")
        self.assertEqual(self.page.text("#connection"), "")


class Estimators(DashboardCase):
    refused = (400, 401, 404, 409)

    def setUp(self) -> None:
        super().setUp()
        self.write("est_a", {"node-1": 1, "node-2": 2, "node-3": 3})
        self.write("est_b", {"node-1": {"value": 1}, "node-2": {"value": 12.5}})
        self.forget("est_a")
        self.forget("est_b")
        self.sign_in()

    def test_bind_compare_swap_and_roll_back(self) -> None:
        self.page.go("#/estimators")
        self.page.click("Bind a name")
        self.page.fill("name", "1st", "dialog")
        self.page.fill("to", "est_a", "dialog")
        self.page.click("Bind", "dialog")
        self.page.error_at("name", "is not a data name")
        self.page.fill("name", "est_bound", "dialog")
        self.page.fill("to", "1st", "dialog")
        self.page.click("Bind", "dialog")
        self.page.error_at("to", "is not a data name")
        self.page.fill("to", "est_a", "dialog")
        self.page.fill("field", "no-pointer", "dialog")
        self.page.click("Bind", "dialog")
        self.page.error_at("field", "pointer")
        self.page.fill("field", "", "dialog")
        self.page.click("Bind", "dialog")
        self.page.wait("the binding", lambda: self.page.text("h1") == "est_bound")
        self.page.see("3 nodes with a value")

        self.page.choose('select[aria-label="Add a candidate"]', '{"to":"est_b","field":"/value"}')
        self.page.see("another value for 1, by 10.5 at most; none for 1 node that has one now")
        self.page.see("no value")
        self.page.click("Swap to est_b/value")
        self.page.see("Without a value: node-3", "dialog")
        self.assertEqual(self.page.findings(), [])
        self.page.click("Swap it", "dialog")
        self.page.see("Roll back to est_a")
        self.assertEqual(self.api("GET", "/api/bindings/est_bound")["to"], "est_b")

        # Somebody else's swap is seen.
        self.api("PUT", "/api/bindings/est_bound", {"to": "est_a"})
        self.page.see("Roll back to est_b/value")
        self.page.click("Roll back to est_b/value")
        self.page.click("Roll it back", "dialog")
        self.page.see("rolled-back")
        self.page.click("Unbind")
        self.page.click("Unbind it", "dialog")
        self.page.wait("the list", lambda: self.page.text("h1") == "Estimators")
        self.page.gone("est_bound")

    def test_a_swap_that_somebody_was_faster_with_is_refused(self) -> None:
        self.api("PUT", "/api/bindings/est_race", {"to": "est_a"})
        self.addCleanup(self.api, "DELETE", "/api/bindings/est_race")
        self.go("#/estimators/est_race", "est_race")
        self.page.choose('select[aria-label="Add a candidate"]', '{"to":"est_b","field":"/value"}')
        self.page.click("Swap to est_b/value")
        self.api("PUT", "/api/bindings/est_race", {"to": "est_b"})
        self.page.click("Swap it", "dialog")
        self.page.see("est_b", "dialog .failure")
        self.page.click("Keep it", "dialog")
        self.assertNotIn("field", self.api("GET", "/api/bindings/est_race"))
