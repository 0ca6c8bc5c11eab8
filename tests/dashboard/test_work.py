"""The pages on which things are begun: registrations, tasks, reservations. Each form, and what it says of wrong input."""

from __future__ import annotations

import urllib.error

from dashboard_case import DashboardCase


class Registrations(DashboardCase):
    refused = (400, 401, 404, 409, 412)

    def test_from_the_form_to_a_value_and_away_again(self) -> None:
        self.sign_in()
        self.page.go("#/registrations")
        self.page.click("New registration")
        # The service's own answers, while one types.
        self.page.fill("dataName", "1st")
        self.page.error_at("dataName", "is not a data name")
        self.page.error_at("cmd", "is missing")
        self.page.fill("dataName", "form_made")
        self.page.fill("cmd", "/bin/sh -c 'echo 41.5; echo hint >&2'")
        self.page.see("This can be registered.")
        self.page.fill("when", "-1")
        self.page.error_at("when", "0.01")
        self.page.fill("when", "1")
        self.page.fill("others", "{not json")
        self.page.click("Register")
        self.page.error_at("others", "is no JSON")
        self.page.fill("others", '{"limits": {"memory": "1"}, "nonsense": 1}')
        self.page.click("Register")
        self.page.see("nonsense", ".failure")
        self.assertEqual(self.page.findings(), [])
        self.page.fill("others", '{"unit": "s"}')
        self.page.fill("history", "1h")
        self.page.click("Register")
        self.addCleanup(self.forgotten, "form_made")
        self.page.wait("its page", lambda: self.page.text("h1") == "form_made")
        self.page.see("1h")

        self.page.click("Run it once")
        self.page.see("41.5")
        self.page.see("hint")
        self.page.click("Values")
        self.page.see("41.5")

        self.go("#/registrations/form_made/edit", "Edit form_made")
        self.page.fill("cmd", "/bin/echo 42.5")
        self.page.see("This can be saved.")
        self.page.click("Save")
        self.page.see("version 2")
        self.assertEqual(self.api("GET", "/api/registry/form_made")["unit"], "s")
        self.page.click("Pause")
        self.page.see("Resume")
        self.assertTrue(self.api("GET", "/api/registry/form_made")["paused"])
        self.page.click("Resume")
        self.page.see("Pause")
        self.page.click("Delete")
        self.page.click("Keep it", "dialog")
        self.page.click("Delete")
        self.page.click("Delete it", "dialog")
        self.page.wait("the list", lambda: self.page.text("h1") == "Registrations")
        self.page.gone("form_made")

    def forgotten(self, name: str) -> None:
        self.api("DELETE", f"/api/data?dataName={name}")

    def test_what_is_needed_is_not_deleted_by_accident(self) -> None:
        self.register("needed", "/bin/echo 1")
        self.register("reader", "needed + 1.0", mode="expr", inputs=["needed"])
        self.sign_in()
        self.go("#/registrations/needed", "needed")
        self.page.click("Delete")
        self.page.click("Delete it", "dialog")
        self.page.see("reader", "dialog .failure")
        self.page.click("Keep it", "dialog")

    def test_a_name_that_is_taken_and_a_version_that_is_old(self) -> None:
        self.register("taken", "/bin/echo 1")
        self.sign_in()
        self.go("#/registrations/+new", "New registration")
        self.page.fill("dataName", "taken")
        self.page.fill("cmd", "/bin/echo 2")
        self.page.see("is registered already")
        self.page.click("Register")
        self.page.see("taken", ".failure")
        self.go("#/registrations/taken/edit", "Edit taken")
        self.page.fill("cmd", "/bin/echo 3")
        self.api("PUT", "/api/registry", {"dataName": "taken", "cmd": "/bin/echo 4", "max-Time": 1})
        self.page.click("Save")
        self.page.see("version", ".failure")
        self.assertEqual(self.api("GET", "/api/registry/taken")["cmd"], "/bin/echo 4")

    def test_it_is_tried_before_it_is_saved(self) -> None:
        self.server.await_nodes(1)
        self.sign_in()
        self.go("#/registrations/+new", "New registration")
        self.page.fill("dataName", "tried_first")
        self.page.fill("cmd", "/bin/sh -c 'echo 0.42; echo looked >&2'")
        self.page.click("Try it on this node")
        self.page.see("1 value")
        self.page.see("0.42")
        self.page.see("looked")
        self.page.fill("cmd", "/bin/sh -c 'echo no such sensor >&2; exit 3'")
        self.page.click("Try it on this node")
        self.page.see("no such sensor", ".notice.bad")
        self.page.fill("when", "often")
        self.page.click("Try it on this node")
        self.page.error_at("when", "")
        self.assertEqual(self.api("GET", "/api/data?dataName=tried_first"), [])

    def test_without_a_token_it_is_asked_for(self) -> None:
        self.go("#/registrations/+new", "New registration")
        self.page.fill("dataName", "nobodys")
        self.page.fill("cmd", "/bin/true")
        self.page.click("Register")
        self.page.see("Registering needs a token.")


class Jobs(DashboardCase):
    def test_a_job_is_seen_while_it_goes_on(self) -> None:
        progress = lambda done, of, fps, activity="working", **more: {  # noqa: E731
            "activity": activity, "revision": 1, "done": done, "of": of, "fps": fps, "images": [], "extra": [], **more
        }
        self.page.go("#/jobs")
        self.page.see("No job goes on.")
        self.write("data_distribution", {"node-1": ["a.jpg", "b.jpg", "c.jpg"], "node-2": {"items": ["d.jpg"]}})
        self.write("node_capability", {"node-1": 2.5, "node-2": {"value": 10}})
        self.write("birds.part", {"node-1": {"images": ["a.jpg"], "revision": 1}, "node-3": {"images": [], "revision": 1}})
        self.write("birds.work", {"node-1": progress(5, 20, 2.5)})
        self.write("birds.work.slow", {"node-2": progress(40, 80, 10)})
        for name in ("data_distribution", "node_capability", "birds.part", "birds.work", "birds.work.slow"):
            self.forget(name)
        self.page.see("45 of 100")
        self.page.click("birds")
        self.page.wait("its page", lambda: self.page.text("h1") == "birds")
        self.page.see("5 / 20")
        self.page.see("no worker yet")
        # A quarter of a bar that is a quarter as long as the other one.
        width = """const bar = [...document.querySelectorAll('tbody tr')].find((row) => row.textContent.includes(arguments[0]))
            .querySelector('.share-bar');
        return [bar, bar.querySelector('.filled')].map((one) => parseFloat(one.style.width))"""
        self.assertEqual(self.page.run(width, "node-1"), [25, 25])
        self.assertEqual(self.page.run(width, "node-2"), [100, 50])
        self.assertEqual(self.page.findings(), [])
        self.write("birds.work", {"node-1": progress(20, 20, 0, "waiting", problem="out of images")})
        self.page.see("out of images")
        self.assertEqual(self.page.run(width, "node-1"), [25, 100])
        self.page.see("60 of 100")


class Tasks(DashboardCase):
    refused = (400, 401, 404, 409)

    def forget_task(self, task: str) -> None:
        self.addCleanup(self.api, "DELETE", f"/api/tasks/{task}")
        self.addCleanup(self.api, "GET", f"/api/tasks/{task}?waitMs=20000")
        self.addCleanup(self.api, "POST", f"/api/tasks/{task}/cancel")

    def test_from_the_form_to_the_log_and_again(self) -> None:
        self.sign_in()
        self.page.go("#/tasks")
        self.page.see("Free")
        self.page.find(".uplot canvas")
        self.page.click("New task")
        self.page.click("Submit")
        self.page.error_at("command", "is missing")
        self.page.fill("command", "/bin/sh -c 'for i in 1 2 3; do echo line $i; sleep 0.5; done; echo last >&2'")
        self.page.fill("cpu", "-1")
        self.page.fill("memory", "much")
        self.page.click("Submit")
        self.page.error_at("cpu", "")
        self.page.error_at("memory", "")
        self.assertEqual(self.page.findings(), [])
        self.page.fill("cpu", "0.1")
        self.page.fill("memory", "16MiB")
        self.page.fill("id", "form-task")
        self.page.click("Submit")
        self.forget_task("form-task")
        self.page.wait("its page", lambda: self.page.text("h1") == "form-task")
        self.page.see("line 1", ".log")
        self.page.see("line 3\nlast", ".log")
        self.page.see("SUCCEEDED")
        self.page.see("chose it among 1 node with room")
        self.page.see("asked 16 MiB, used")
        self.page.see("written")
        self.page.click("Submit it again")
        self.page.wait("another task", lambda: self.page.text("h1") not in ("form-task", ""))
        self.forget_task(self.page.text("h1"))
        self.page.see("SUCCEEDED")
        self.page.see("line 3", ".log")

    def test_a_training_is_seen_while_it_goes_on(self) -> None:
        line = """estimand-progress {"step": '$i', "of": 4, "values": {"loss": 0.'$i'}}"""
        script = f"for i in 1 2 3; do echo '{line}'; done; exec sleep 1000"
        self.api("POST", "/api/tasks", {"id": "training", "command": ["/bin/sh", "-c", script]})
        self.forget_task("training")
        self.sign_in()
        self.go("#/tasks/training", "training")
        self.page.see("3 of 4, loss 0.3")
        self.assertEqual(self.page.run("return document.querySelector('progress').value"), 0.75)
        self.page.find(".spark path")
        self.assertEqual(self.page.findings(), [])
        self.go("#/tasks", "Tasks")
        self.page.find("tbody progress")

    def test_cancel_and_delete(self) -> None:
        self.api("POST", "/api/tasks", {"id": "form-long", "command": "/bin/sleep 1000"})
        self.api("POST", "/api/tasks", {"id": "form-large", "command": "/bin/true", "resources": {"gpu": 64}})
        self.forget_task("form-large")
        self.sign_in()
        self.page.go("#/tasks")
        self.page.click("form-large")
        self.page.see("it needs gpu:64")
        self.page.go("#/tasks")
        self.page.click("form-long")
        self.page.see("RUNNING")
        self.page.click("Cancel")
        self.page.click("Cancel it", "dialog")
        self.page.see("CANCELLED")
        self.page.click("Delete")
        self.page.click("Delete it", "dialog")
        self.page.wait("the list", lambda: self.page.text("h1") == "Tasks")
        self.page.gone("form-long")
        self.page.choose('select[aria-label="Which tasks"]', "RUNNING")
        self.page.gone("form-large")


class Reservations(DashboardCase):
    refused = (400, 401, 403, 404, 409)

    def has_prices(self) -> bool:
        """True when a node is known that takes promises."""
        try:
            self.api("GET", "/api/reservations/prices?resources=cpu%3D0.1&duration=5m&from=10m")
        except urllib.error.HTTPError:
            return False
        return True

    def test_price_reserve_and_cancel(self) -> None:
        self.page.wait("prices", self.has_prices)
        self.sign_in()
        self.page.go("#/reservations")
        self.page.click("Grant credits")
        self.page.fill("user", "ada", "dialog")
        self.page.fill("amount", "-5", "dialog")
        self.page.click("Grant", "dialog")
        self.page.error_at("amount", "")
        self.page.fill("amount", "100", "dialog")
        self.page.click("Grant", "dialog")
        self.page.see("ada")
        self.page.fill("duration", "soon")
        self.page.click("What does it cost?")
        self.page.error_at("duration", "")
        self.assertEqual(self.page.findings(), [])
        self.page.fill("cpu", "0.1")
        self.page.fill("duration", "5m")
        self.page.fill("from", "10m")
        self.page.click("What does it cost?")
        self.page.see("The cheapest start is")
        self.page.find(".uplot canvas")
        self.page.fill("user", "ada")
        self.page.fill("value", "0")
        self.page.click("Reserve the cheapest")
        self.page.error_at("value", "is below the price")
        self.page.fill("value", "50")
        self.page.click("Reserve the cheapest")
        self.page.see("PROMISED")
        self.page.see("ada")
        self.page.click("Change it")
        self.page.fill("duration", "soon", "dialog")
        self.page.click("What would it cost?", "dialog")
        self.page.error_at("duration", "")
        self.page.fill("duration", "10m", "dialog")
        self.page.click("What would it cost?", "dialog")
        self.page.see("It would cost", "dialog")
        self.assertEqual(self.page.findings(), [])
        self.page.click("Change it", "dialog")
        self.page.wait("the change", lambda: '"10m"' in self.page.text(), lambda: self.page.text())
        self.page.click("Give it another value")
        self.page.fill("value", "60", "dialog")
        self.page.click("Save", "dialog")
        self.page.see('"value":')
        self.page.click("Cancel it")
        self.page.click("Cancel it", "dialog")
        self.page.see("CANCELLED")

    def reserve(self, user: str, count: int, **fields: object) -> list[str]:
        """Small reservations of that user, which are cancelled when the test is over."""
        one = {"resources": {"cpu": 0.01}, "duration": "1m", "from": "20m", "by": "40m", **fields}
        made = self.api("POST", "/api/reservations/lists", {"allOrNone": [one] * count, "user": user, "value": 50})
        ids = [reservation["id"] for reservation in made["reservations"]]
        for one_id in ids:
            self.addCleanup(self.cancel, one_id)
        return ids

    def cancel(self, reservation: str) -> None:
        if self.api("GET", f"/api/reservations/{reservation}")["state"] == "PROMISED":
            self.api("POST", f"/api/reservations/{reservation}/cancel")

    def shown(self) -> list[str]:
        """The reservations that the list shows now."""
        found: list[str] = self.page.run(
            "return [...document.querySelectorAll('[aria-label=\"Reservations\"] tbody th')].map((cell) => cell.textContent)"
        )
        return found

    def until_shown(self, ids: list[str]) -> None:
        self.page.wait(f"the reservations {ids}", lambda: self.shown() == ids, self.shown)

    def test_users_page_through_their_own(self) -> None:
        self.page.wait("prices", self.has_prices)
        for user in ("grace", "kurt"):
            self.api("POST", "/api/credits/grants", {"user": user, "amount": 100})
        of_kurt = self.reserve("kurt", 1)
        of_grace = self.reserve("grace", 26)
        (with_task,) = self.reserve("grace", 1, width=2, task={"command": "/bin/true"})
        newest_first = [with_task, *reversed(of_grace)]
        self.sign_in(self.token("of-grace", "user", user="grace"))
        self.page.go("#/reservations")
        self.until_shown(newest_first[:25])
        self.page.click("Older")
        self.until_shown(newest_first[25:])
        self.page.see("Page 2")
        self.assertEqual(self.page.findings(), [])
        self.page.choose('select[aria-label="Which reservations"]', "CANCELLED")
        self.page.see("No reservation is like that.")
        self.page.choose('select[aria-label="Which reservations"]', "PENDING,PROMISED,ACTIVE")
        self.until_shown(newest_first[:25])

        # One with a task says what is promised, and leads there.
        self.page.click(with_task)
        self.page.see("2 units, each with cpu 0.01")
        self.page.see("2 on node-1")
        self.page.click(self.api("GET", f"/api/reservations/{with_task}")["task"])
        self.page.see("/bin/true")
        self.go(f"#/reservations/{with_task}", with_task)
        self.page.click("Cancel it")
        self.page.click("Cancel it", "dialog")
        self.page.see("CANCELLED")
        self.page.go("#/reservations")
        self.page.choose('select[aria-label="Which reservations"]', "CANCELLED")
        self.until_shown([with_task])
        # That of somebody else is as if it was not there.
        self.page.go(f"#/reservations/{of_kurt[0]}")
        self.page.see("reservation", ".notice.bad")

    def test_operators_see_those_of_all(self) -> None:
        self.page.wait("prices", self.has_prices)
        for user in ("edsger", "alonzo"):
            self.api("POST", "/api/credits/grants", {"user": user, "amount": 100})
        both = self.reserve("alonzo", 1) + self.reserve("edsger", 1)
        self.sign_in()
        self.page.go("#/reservations")
        self.page.choose('select[aria-label="Which reservations"]', "PROMISED")
        self.until_shown(both[::-1])
        self.page.see("edsger")
        self.page.see("alonzo")
