"""Every page: with and without a token, light and dark, wide and narrow; signing in and out; bytes; the lost connection."""

from __future__ import annotations

from browser import NARROW, WIDE
from dashboard_case import DashboardCase, DataService
from server import Server

PAGES = {
    "#/overview": "Overview",
    "#/data": "Data",
    "#/data/pages_load1": "pages_load1",
    "#/data/pages_load1/node-1": "node-1",
    "#/registrations": "Registrations",
    "#/registrations/pages_load1": "pages_load1",
    "#/registrations/+new": "New registration",
    "#/estimators": "Estimators",
    "#/estimators/pages_bound": "pages_bound",
    "#/tasks": "Tasks",
    "#/tasks/pages-task": "pages-task",
    "#/tasks/+new": "New task",
    "#/jobs": "Jobs",
    "#/jobs/pages_job": "pages_job",
    "#/reservations": "Reservations",
    "#/users": "Users",
}
# What any of them may cost.
MOST_BYTES = 250_000


class Pages(DashboardCase):
    def fill_up(self) -> None:
        self.register("pages_load1", "cut -d' ' -f1 /proc/loadavg", format="number", history="1h")
        self.register("pages_fails", "/bin/sh -c 'echo no such sensor >&2; exit 3'", paused=True)
        self.api("PUT", "/api/bindings/pages_bound", {"to": "pages_load1"})
        self.addCleanup(self.api, "DELETE", "/api/bindings/pages_bound")
        self.api("POST", "/api/tasks", {"id": "pages-task", "command": "/bin/echo hello"})
        self.addCleanup(self.api, "DELETE", "/api/tasks/pages-task")
        self.addCleanup(self.api, "GET", "/api/tasks/pages-task?waitMs=20000")

    def test_each_page_has_no_finding_of_axe(self) -> None:
        self.fill_up()
        self.sign_in()
        for place, heading in PAGES.items():
            with self.subTest(place):
                self.go(place, heading)
                self.page.gone("Looking …")
                self.assertEqual(self.page.findings(), [])
                self.page.darken(True)
                self.assertEqual(self.page.findings("color-contrast"), [], "in the dark")
                self.page.darken(False)
        self.page.resize(NARROW, mobile=True)
        try:
            for place, heading in PAGES.items():
                with self.subTest(f"{place}, narrow"):
                    self.go(place, heading)
                    self.page.gone("Looking …")
                    wider = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
                    self.assertEqual(self.page.run(wider), 0, "nothing is wider than the screen")
        finally:
            self.page.resize(WIDE)

    def test_values_need_no_token_on_loopback_and_tasks_do(self) -> None:
        self.fill_up()
        self.go("#/data/pages_load1", "pages_load1")
        self.page.see("fresh")
        for place in ("#/tasks", "#/users", "#/reservations"):
            self.page.go(place)
            self.page.see("needs a token.")
        self.assertEqual(self.page.findings(), [])
        # What is there for all is shown, too.
        self.page.see("cpu")

    def test_all_of_it_is_small_and_from_here(self) -> None:
        self.fill_up()
        self.sign_in()
        self.page.devtools("Network.clearBrowserCache", {})
        self.page.open("about:blank")
        self.page.open(self.server.address + "/")
        for place, heading in PAGES.items():
            self.go(place, heading)
        loaded = self.page.run(
            """const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
            return all.map(({ name, transferSize }) => [name, transferSize])"""
        )
        files = [(name, size) for name, size in loaded if "/api/" not in name]
        self.assertTrue(all(name.startswith(self.server.address) for name, _ in loaded), loaded)
        self.assertGreater(len(files), 15)
        total = sum(size for _, size in files)
        first = self.page.run("return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
        print(f"\nall pages: {total} bytes in {len(files)} files, first paint after {first:.0f} ms", flush=True)
        self.assertLess(total, MOST_BYTES)
        self.assertGreater(total, 50_000, "they were fetched and not remembered")

    def test_an_unknown_page_and_unknown_things_say_so(self) -> None:
        self.refused = (404, 401)
        self.page.go("#/nowhere")
        self.page.see("There is no such page")
        self.page.go("#/registrations/never_was")
        self.page.see("never_was")
        self.page.see("not registered")


class SigningIn(DashboardCase):
    refused = (401, 403)

    def test_a_token_is_in_no_storage_and_no_address(self) -> None:
        self.sign_in()
        token = self.server.token
        self.assertEqual(self.page.text("header .role"), "operator")
        for look in (
            "JSON.stringify({ ...localStorage }) + JSON.stringify({ ...sessionStorage }) + document.cookie",
            "location.href",
            "document.documentElement.outerHTML",
            "[...document.querySelectorAll('input')].map((one) => one.value).join()",
            "JSON.stringify(performance.getEntries().map(({ name }) => name))",
        ):
            self.assertNotIn(token, self.page.run(f"return {look}"), look)
        self.page.click("Sign out", "header")
        self.page.go("#/tasks")
        self.page.see("The list of tasks needs a token.")
        # It is gone with the page.
        self.sign_in()
        self.page.open("about:blank")
        self.page.open(self.server.address + "/#/tasks")
        self.page.see("The list of tasks needs a token.")

    def test_a_wrong_token_is_told_at_its_field(self) -> None:
        self.page.click("Sign in", "header")
        self.page.click("Sign in", "dialog")
        self.page.error_at("token", "is missing")
        self.page.fill("token", "estimand_never-was", "dialog")
        self.page.click("Sign in", "dialog")
        self.page.error_at("token", "is not taken")
        self.assertEqual(self.page.findings(), [])
        self.page.click("Cancel", "dialog")
        self.page.see("Sign in", "header")

    def test_a_user_sees_what_is_theirs(self) -> None:
        token = self.token("dash-ada", "user")
        for task, user in (("of-ada", "dash-ada"), ("of-bob", "dash-bob")):
            self.api("POST", "/api/tasks", {"id": task, "command": "/bin/true", "user": user, "nodes": "nowhere=1"})
            self.addCleanup(self.api, "DELETE", f"/api/tasks/{task}")
            self.addCleanup(self.api, "POST", f"/api/tasks/{task}/cancel")
        self.page.go("#/tasks")
        self.sign_in(token)
        self.assertEqual(self.page.text("header .role"), "user")
        self.page.see("of-ada")
        self.assertNotIn("of-bob", self.page.text())
        self.page.go("#/registrations/+new")
        self.page.fill("dataName", "by_user")
        self.page.fill("cmd", "true")
        self.page.click("Register")
        self.page.see("Registering is not for you")

    def test_what_was_written_runs_nothing(self) -> None:
        self.refused = ()
        evil = "<img src=x onerror=\"window.evil = 1\"><script>window.evil = 1</script>"
        self.write("evil_value", {"node-1": evil, "node-2": {"deep": evil}})
        self.forget("evil_value")
        self.go("#/data/evil_value", "evil_value")
        self.page.see("<img src=x")
        self.go("#/data/evil_value/node-1", "node-1")
        self.page.see("written directly")
        self.assertIsNone(self.page.run("return window.evil ?? null"))
        self.assertEqual(self.page.run("return document.querySelectorAll('main img, main script').length"), 0)
        blocked = "try { document.body.innerHTML = '<b>x</b>'; return 'taken' } catch (error) { return error.name }"
        self.assertEqual(self.page.run(blocked), "TypeError", "the policy refuses texts as HTML")
        # The console tells of the line above.
        self.page.said()


class Away(DashboardCase):
    refused = (401, 503)
    goes_away = True

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server().start()
        cls.addClassCleanup(cls.server.stop)

    def test_a_lost_connection_is_told_and_comes_back(self) -> None:
        self.write("away", {"node-1": 1, "node-2": 2})
        self.go("#/data/away", "away")
        self.page.see("node-2")
        self.sign_in()
        self.page.see("node-2")
        self.server.kill()
        self.page.see("Connection lost, trying again", "#connection")
        self.assertIn("node-2", self.page.text(), "what was known stays")
        self.server.start()
        self.page.gone("Connection lost", "#connection")
        # The watch goes on, and so does whoever is signed in.
        self.write("away", {"node-3": 333.5})
        self.page.see("333.5")
        self.page.see("Sign out", "header")
        self.page.go("#/tasks")
        self.page.see("There are no such tasks.")


class Apart(DashboardCase):
    """A data service alone: what it does not serve is said, and not asked for again and again."""

    refused = (401, 404)

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = DataService().start()
        cls.addClassCleanup(cls.server.stop)

    def test_what_is_served_is_shown_and_the_rest_says_that_it_is_not(self) -> None:
        self.write("apart", {"node-1": 1, "node-2": 12.5})
        self.go("#/data/apart", "apart")
        self.page.see("12.5")
        self.page.go("#/estimators")
        self.page.see("No name is bound.")
        for place in ("#/overview", "#/registrations", "#/tasks", "#/reservations"):
            self.page.go(place)
            self.page.see("is not served at this address")
