"""The process that listens on an address of this machine: a token is shown to it only if it belongs to root or to this
user. Another user may take the port while a service restarts.

The socket that listens is looked up in the kernel's table before a connection is made and again after it: if it is the
same one, the connection leads to it. TLS needs none of this, because there the service proves who it is.
"""

from __future__ import annotations

import ipaddress
import os
import struct
from typing import Union

from estimand.errors import UntrustedError

# Names a further user, by number, whose services are trusted with tokens on this machine.
SERVER_USER_VARIABLE = "ESTIMAND_SERVER_USER"

_LISTENS = "0A"

Ip = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]

# Sockets that listen: the number of each in the kernel, and its owner.
Listeners = frozenset[tuple[int, int]]


def check_listeners(url: str, host: str, port: int) -> Listeners:
    """All sockets to which a connection may lead, if each is of a trusted user."""
    try:
        found = frozenset(
            listener
            for file in ("/proc/net/tcp", "/proc/net/tcp6")
            if file.endswith("tcp") or os.path.exists(file)
            for listener in listening(_read(file), host, port)
        )
    except OSError as error:
        raise UntrustedError(f"{url} is not trusted: it cannot be said who listens there: {error}") from None
    return _check(url, found)


def check_socket(url: str, path: str) -> Listeners:
    """The socket in the file system, if it is of a trusted user; nothing if none is there, which connecting shows."""
    try:
        there = os.stat(path)
    except OSError:
        return frozenset()
    return _check(url, frozenset({(there.st_ino, there.st_uid)}))


def _check(url: str, found: Listeners) -> Listeners:
    for user in {user for _, user in found} - _trusted():
        raise UntrustedError(
            f"{url} is not trusted: what listens there belongs to the user {user}, neither root nor this one, so the "
            "token is not shown to it; if that is the user of the services, say so with "
            f"{SERVER_USER_VARIABLE}={user}, or use https"
        )
    return found


def listening(table: str, host: str, port: int) -> Listeners:
    """The sockets of a table that listen on the address or on all addresses."""
    wanted = _plain(ipaddress.ip_address(host))
    found = set()
    for line in table.splitlines()[1:]:
        # Most lines are connections, which are many.
        if f" {_LISTENS} " not in line:
            continue
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTENS:
            continue
        address, _, its_port = fields[1].partition(":")
        local = _plain(_address(address))
        if int(its_port, 16) == port and (local.is_unspecified or local == wanted):
            found.add((int(fields[9]), int(fields[7])))
    return frozenset(found)


def _trusted() -> set[int]:
    named = os.environ.get(SERVER_USER_VARIABLE, "").strip()
    return {0, os.geteuid(), *([int(named)] if named.isdigit() else [])}


def _read(file: str) -> str:
    with open(file, encoding="ascii") as table:
        return table.read()


def _address(text: str) -> Ip:
    """An address of the table: words of 32 bits in the machine's order of bytes."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    return ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))


def _plain(address: Ip) -> Ip:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
