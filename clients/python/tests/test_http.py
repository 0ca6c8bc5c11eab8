"""Responses are read the same however they are cut into pieces."""

from __future__ import annotations

import unittest
from typing import Optional

from estimand._http import ProtocolError, Request, ResponseReader

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: a: b\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: t\r\n\r\n"
)
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\nhello"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


def read(data: bytes, size: int, end: bool = False) -> tuple[ResponseReader, bytes]:
    reader, body = ResponseReader(), b""
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
        body += reader.take()
    if end:
        reader.feed(b"")
    return reader, body


class Reading(unittest.TestCase):
    def test_any_pieces_give_the_same_response(self) -> None:
        for data, expected, end in ((PLAIN, b"hello", False), (CHUNKED, b"hello", False), (ENDLESS, b"hello", True)):
            for size in range(1, len(data) + 1):
                with self.subTest(data=data, size=size):
                    reader, body = read(data, size, end)
                    self.assertTrue(reader.is_over)
                    self.assertEqual((reader.status, body), (200, expected))
                    self.assertEqual(reader.can_stay, not end)

    def test_an_answer_without_a_body_is_over_at_once(self) -> None:
        reader, body = read(EMPTY, len(EMPTY))
        self.assertEqual((reader.is_over, reader.can_stay, body), (True, True, b""))

    def test_a_header_keeps_its_colons(self) -> None:
        self.assertEqual(read(PLAIN, 7)[0].headers["x"], "a: b")

    def test_a_connection_that_is_to_close_is_not_used_again(self) -> None:
        data = PLAIN.replace(b"X: a: b", b"Connection: close")
        self.assertFalse(read(data, 9)[0].can_stay)

    def test_bytes_behind_a_response_end_the_use_of_its_connection(self) -> None:
        self.assertFalse(read(PLAIN + b"!", len(PLAIN) + 1)[0].can_stay)

    def test_an_end_in_the_midst_is_a_broken_connection(self) -> None:
        for data in (PLAIN, CHUNKED):
            for cut in range(1, len(data)):
                with self.subTest(data=data, cut=cut), self.assertRaises(ConnectionResetError):
                    read(data[:cut], cut, end=True)

    def test_other_bytes_are_refused(self) -> None:
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        wrong = (
            b"SSH-2.0-x\r\n\r\n\r\n\r\n",
            b"HTTP/1.1 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
            chunked + b"x\r\n",
            chunked + b"3\r\nhello",
            b"y" * 70_000,
        )
        for data in wrong:
            with self.subTest(data=data[:60]), self.assertRaises(ProtocolError):
                read(data, len(data))


class Writing(unittest.TestCase):
    def test_names_and_parameters_are_escaped(self) -> None:
        query: dict[str, Optional[str]] = {"nodes": "zone=a,!old", "none": None}
        target = Request("GET", ("api", "data", "a/b c"), query).target("/prefix")
        self.assertEqual(target, "/prefix/api/data/a%2Fb%20c?nodes=zone%3Da%2C%21old")

    def test_a_header_cannot_carry_another_one(self) -> None:
        request = Request("POST", ("api", "tasks"), headers={"idempotency-key": "a\r\nx: y"})
        with self.assertRaises(ValueError):
            request.render("", "h", {})


if __name__ == "__main__":
    unittest.main()
