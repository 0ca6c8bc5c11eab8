"""Services that speak TLS, with a private authority."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import unittest
from pathlib import Path

from server import BINARY, Server

from estimand import AsyncClient, Client
from estimand.errors import EstimandError, UnauthorizedError, UntrustedError


class Tls(unittest.TestCase):
    pki: Path
    authority: str
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="estimand-python-pki.")
        cls.addClassCleanup(folder.cleanup)
        cls.pki = Path(folder.name)
        for arguments in (
            ("init",),
            ("issue", "services", "--service", "--address", "127.0.0.1"),
            ("issue", "me", "--operator"),
        ):
            subprocess.run([BINARY, "pki", *arguments, "--dir", cls.pki], check=True, stdout=subprocess.DEVNULL)
        cls.authority = str(cls.pki / "authority.pem")
        cls.server = Server("--tls", str(cls.pki), scheme="https")
        cls.addClassCleanup(cls.server.stop)
        cls.server.start()

    def test_a_token_goes_to_a_service_of_the_authority(self) -> None:
        with Client(self.server.address, token=self.server.token, authority=self.authority) as client:
            self.assertEqual(client.put("t", "n", 1).outcome, "created")
            with client.mirror("t") as values:
                self.assertEqual(values["t"]["n"], 1)

    def test_the_asynchronous_client_speaks_it_too(self) -> None:
        async def mirrored() -> object:
            async with AsyncClient(self.server.address, token=self.server.token, authority=self.authority) as client:
                await client.put("t_async", "n", 2)
                async with client.mirror("t_async") as values:
                    return values["t_async"]["n"]

        self.assertEqual(asyncio.run(mirrored()), 2)

    def test_a_certificate_stands_for_a_token(self) -> None:
        certificate = str(self.pki / "me" / "operator.pem")
        with Client(self.server.address, authority=self.authority, certificate=certificate) as client:
            self.assertEqual(client.files().files, ())
        with Client(self.server.address, authority=self.authority) as client, self.assertRaises(UnauthorizedError):
            client.files()

    def test_a_service_of_another_authority_is_not_trusted(self) -> None:
        with Client(self.server.address, token="t") as client, self.assertRaises(UntrustedError):
            client.nodes()

    def test_files_that_are_not_there_are_named(self) -> None:
        with self.assertRaisesRegex(EstimandError, "nowhere.pem"):
            Client(self.server.address, authority="/nowhere.pem")


if __name__ == "__main__":
    unittest.main()
