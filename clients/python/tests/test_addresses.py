"""The token goes only to the service, and not over the network unencrypted."""

from __future__ import annotations

import asyncio
import os
import socket
import unittest
from unittest import mock

from server import Server

from estimand import AsyncClient, Client, Options
from estimand._address import Address
from estimand._listener import check_listeners, listening
from estimand.errors import AddressError, ConnectError, EstimandError, UntrustedError

# Lines of /proc/net/tcp: address, state, owner, and the number of the socket.
LINE = "{n:4}: {at} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {user:5} 0 {inode} 1 0 100 0 0 10 0"


def table(*sockets: tuple[str, str, int, int]) -> str:
    rows = (LINE.format(n=n, at=at, state=state, user=user, inode=i) for n, (at, state, user, i) in enumerate(sockets))
    return "\n".join(["  sl  local_address …", *rows, ""])


class Addresses(unittest.TestCase):
    def test_what_is_an_address(self) -> None:
        for text, expected in {
            "http://127.0.0.1:7070": "http://127.0.0.1:7070",
            "http://localhost:7070/": "http://127.0.0.1:7070",
            "https://h/below/": "https://h:443/below",
            "http://[::1]:80": "http://[::1]:80",
            "unix:/run/estimand.sock": "unix:/run/estimand.sock",
        }.items():
            self.assertEqual(str(Address.parse(text)), expected)

    def test_what_is_none(self) -> None:
        for text in ("", "127.0.0.1:7070", "ftp://h", "http://", "http://h:x", "http://u:p@h", "http://h/?q", "unix:x"):
            with self.subTest(text=text), self.assertRaisesRegex(AddressError, "expected e.g. http://127.0.0.1:7070"):
                Address.parse(text)

    def test_a_service_at_a_socket_is_spoken_to(self) -> None:
        server = Server(scheme="unix").start()
        self.addCleanup(server.stop)
        with server.client() as client:
            client.put("v_socket", "n", 1)
            self.assertEqual(dict(client.values("v_socket")["v_socket"]), {"n": 1})
            with client.mirror("v_socket") as values:
                self.assertEqual(values["v_socket"]["n"], 1)

        async def read() -> object:
            async with AsyncClient(server.address) as client:
                return (await client.values("v_socket"))["v_socket"]["n"]

        self.assertEqual(asyncio.run(read()), 1)
        with self.assertRaisesRegex(ConnectError, "unix:/no/such"):
            Client("unix:/no/such", options=Options(attempts=1)).values("v_socket")

    def test_a_token_is_withheld_from_other_machines_without_tls(self) -> None:
        for text, withheld in {
            "http://10.0.0.1:7070": True,
            "http://h": True,
            "http://127.0.0.2": False,
            "http://[::1]": False,
            "unix:/run/estimand.sock": False,
            "https://h": False,
        }.items():
            with self.subTest(text=text):
                self.assertEqual(Client(text, token="t").withholds_token, withheld)
                self.assertFalse(Client(text).withholds_token)

    def test_a_token_that_would_be_another_header_is_refused(self) -> None:
        with self.assertRaisesRegex(EstimandError, "visible ASCII"):
            Client(token="a\r\nx: y")


class ListenersOfAPort(unittest.TestCase):
    def test_the_listeners_of_an_address_are_found_in_the_table(self) -> None:
        text = table(
            ("0100007F:1B9E", "0A", 1001, 70),
            ("00000000:1B9E", "0A", 0, 71),
            ("0100007F:1B9E", "01", 7, 72),
            ("0200007F:1B9E", "0A", 8, 73),
            ("0100007F:1B9F", "0A", 9, 74),
            ("00000000000000000000000001000000:1B9E", "0A", 10, 75),
            ("0000000000000000FFFF00000100007F:1B9E", "0A", 11, 76),
        )
        self.assertEqual(listening(text, "127.0.0.1", 7070), {(70, 1001), (71, 0), (76, 11)})
        self.assertEqual(listening(text, "::1", 7070), {(71, 0), (75, 10)})

    def test_an_own_listener_is_trusted(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as own:
            self.assertEqual(len(check_listeners("u", "127.0.0.1", own.getsockname()[1])), 1)

    def test_a_strangers_listener_gets_no_token(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as own:
            port = own.getsockname()[1]
            strange = table((f"0100007F:{port:04X}", "0A", 54321, 70))
            with mock.patch("estimand._listener._read", lambda _: strange):
                client = Client(f"http://127.0.0.1:{port}", token="secret")
                with self.assertRaisesRegex(UntrustedError, "ESTIMAND_SERVER_USER=54321"):
                    client.nodes()
                own.settimeout(0)
                with self.assertRaises(BlockingIOError):
                    own.accept()
                with mock.patch.dict(os.environ, {"ESTIMAND_SERVER_USER": "54321"}):
                    self.assertEqual(check_listeners("u", "127.0.0.1", port), {(70, 54321)})

    def test_a_listener_that_changes_while_one_connects_gets_no_token_and_is_tried_again(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as own:
            port, user = own.getsockname()[1], os.geteuid()
            tables = (table((f"0100007F:{port:04X}", "0A", user, inode)) for inode in range(70, 1000))
            client = Client(f"http://127.0.0.1:{port}", token="secret", options=Options(attempts=3))
            reads = mock.patch("estimand._listener._read", lambda _: next(tables))
            with reads, self.assertRaisesRegex(ConnectError, "another process listens there"):
                client.nodes()
            for _ in range(3):
                connection, _ = own.accept()
                with connection:
                    self.assertEqual(connection.recv(1000), b"", "nothing is sent")
            own.settimeout(0)
            with self.assertRaises(BlockingIOError):
                own.accept()


if __name__ == "__main__":
    unittest.main()
