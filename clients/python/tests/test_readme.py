"""The examples of the page, run one after the other against a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from server import PATIENCE, shared

CLIENT = Path(__file__).resolve().parents[1]


class Page(unittest.TestCase):
    def test_each_example_runs(self) -> None:
        page = (CLIENT / "README.md").read_text(encoding="utf-8")
        examples = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(examples), 5)
        server = shared()
        environment = {
            **os.environ,
            "ESTIMAND_SERVER": server.address,
            "ESTIMAND_TOKEN": server.token,
            "PYTHONPATH": str(CLIENT / "src"),
        }
        # One client of these examples is not closed, as in a shell.
        environment.pop("PYTHONWARNINGS", None)
        with tempfile.TemporaryDirectory() as folder:
            for example in examples:
                with self.subTest(example=example):
                    done = subprocess.run(
                        [sys.executable, "-c", example],
                        cwd=folder,
                        env=environment,
                        capture_output=True,
                        encoding="utf-8",
                        timeout=PATIENCE,
                    )
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
