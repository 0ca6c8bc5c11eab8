"""The dashboard below a path, as a proxy shows it."""

from __future__ import annotations

from dashboard_case import DashboardCase
from server import Server


class BelowAPath(DashboardCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server("--base", "/estimand")
        cls.addClassCleanup(cls.server.stop)
        cls.server.start()

    def setUp(self) -> None:
        super().setUp()
        # Without a slash, as people type it.
        self.page.open(self.server.address + "/estimand")

    def test_all_that_it_asks_for_is_below_it(self) -> None:
        self.write("below", {"node-1": 1.5})
        self.go("#/data/below", "below")
        self.page.see("1.5")
        self.write("below", {"node-1": 7.25})
        self.page.see("7.25")
        self.sign_in()
        self.go("#/registrations", "Registrations")
        names = self.page.run("return performance.getEntriesByType('resource').map(({ name }) => name)")
        self.assertTrue(any("/api/data/watch" in name for name in names) and len(names) > 10, names)
        elsewhere = [name for name in names if not name.startswith(self.server.address + "/estimand/")]
        self.assertEqual(elsewhere, [])
