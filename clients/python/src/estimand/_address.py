"""The address of a service, and to whom a token may be shown there."""

from __future__ import annotations

import ipaddress
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Optional
from urllib.parse import urlsplit

from estimand._listener import Listeners, check_listeners, check_socket
from estimand.errors import AddressError, ConnectError, EstimandError

DEFAULT = "http://127.0.0.1:7070"


@dataclass(frozen=True)
class Address:
    """The place of a service."""

    scheme: str
    host: str
    port: int
    prefix: str
    socket: Optional[str] = None
    """The path of a socket in the file system, in place of host and port."""

    @staticmethod
    def parse(text: str) -> Address:
        """Reads an address such as `http://127.0.0.1:7070`."""
        wrong = AddressError(f"`{text}` is not the address of a service; expected e.g. {DEFAULT}")
        if text.startswith("unix:/"):
            return Address("unix", "localhost", 0, "", text[len("unix:") :])
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise wrong from None
        host = parts.hostname
        is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
        if parts.scheme not in ("http", "https") or not host or not is_plain or not host.isascii():
            raise wrong
        # The name could also lead to `::1`, where somebody else may listen.
        if parts.scheme == "http" and host == "localhost":
            host = "127.0.0.1"
        return Address(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), parts.path.rstrip("/"))

    def __str__(self) -> str:
        return f"unix:{self.socket}" if self.socket else f"{self.scheme}://{self.authority}{self.prefix}"

    @property
    def authority(self) -> str:
        """Host and port as they stand in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host

    @property
    def is_here(self) -> bool:
        """True for an address of this machine alone."""
        if self.socket:
            return True
        try:
            ip = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        mapped = getattr(ip, "ipv4_mapped", None)
        return (mapped or ip).is_loopback

    @property
    def is_private(self) -> bool:
        """True if no other machine can read requests on their way there."""
        return self.scheme == "https" or self.is_here


@dataclass(frozen=True)
class Credentials:
    """A token, the authorities that are trusted, and a certificate of one's own, the latter two as files."""

    token: Optional[str] = None
    authority: Optional[str] = None
    certificate: Optional[str] = None

    @staticmethod
    def of(token: Optional[str], authority: Optional[str], certificate: Optional[str]) -> Credentials:
        """What is given, and for the rest ESTIMAND_TOKEN, ESTIMAND_AUTHORITY and ESTIMAND_CERTIFICATE."""
        token = (token or os.environ.get("ESTIMAND_TOKEN") or "").strip()
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise EstimandError("the token is not valid: it has other characters than visible ASCII")
        return Credentials(
            token or None,
            authority or os.environ.get("ESTIMAND_AUTHORITY") or None,
            certificate or os.environ.get("ESTIMAND_CERTIFICATE") or None,
        )


class Service:
    """One service: its address, what is shown to it, and whether it may be."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.address = Address.parse(address)
        self._credentials = credentials
        self._tls: Optional[ssl.SSLContext] = None
        self._stamps: Optional[tuple[float, ...]] = None
        if self.address.scheme == "https":
            self.tls()

    @property
    def shows_token(self) -> bool:
        """False also for a token that would go over the network unencrypted."""
        return self._credentials.token is not None and self.address.is_private

    @property
    def withholds_token(self) -> bool:
        """True for a token that would go over the network unencrypted."""
        return self._credentials.token is not None and not self.address.is_private

    def headers(self) -> dict[str, str]:
        """The headers of each request to it."""
        return {"authorization": f"Bearer {self._credentials.token}"} if self.shows_token else {}

    def listeners(self) -> Optional[Listeners]:
        """What listens there, if a token is shown to it; `UntrustedError` if it is a stranger's."""
        if self.address.scheme == "https" or not self.shows_token:
            return None
        if self.address.socket:
            return check_socket(str(self.address), self.address.socket)
        return check_listeners(str(self.address), self.address.host, self.address.port)

    def check_same(self, before: Optional[Listeners]) -> None:
        """Called when a connection is made: the process that listens is the one that was looked at.

        Nothing was sent to another one, such as a service that was started anew meanwhile, so this may be tried again.
        """
        if before is not None and self.listeners() != before:
            raise ConnectError(f"{self.address} does not answer: another process listens there than a moment ago")

    def tls(self) -> Optional[ssl.SSLContext]:
        """The context of TLS; its files are read again when they changed."""
        if self.address.scheme != "https":
            return None
        certificate = self._credentials.certificate
        key = str(Path(certificate).with_suffix(".key")) if certificate else None
        files = [file for file in (self._credentials.authority, certificate, key) if file]
        try:
            stamps = tuple(Path(file).stat().st_mtime for file in files)
            if self._tls is None or stamps != self._stamps:
                context = ssl.create_default_context(cafile=self._credentials.authority)
                if certificate:
                    context.load_cert_chain(certificate, key)
                self._tls, self._stamps = context, stamps
        except OSError as error:
            # Files that cannot be read are an error at the start; later the earlier content stays in use.
            if self._tls is None:
                raise EstimandError(f"TLS cannot be set up with {', '.join(files)}: {error}") from None
        return self._tls
