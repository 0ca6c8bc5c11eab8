# Made of _async/client.py by make_sync; change that.
"""The client with all parts of the interface."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Optional

from estimand._address import DEFAULT, Credentials
from estimand._sync.files import FileCalls
from estimand._sync.registry import RegistryCalls
from estimand._sync.studies import StudyCalls
from estimand._sync.tasks import TaskCalls
from estimand._sync.transport import Transport
from estimand._sync.values import ValueCalls
from estimand.options import Options


class Client(ValueCalls, RegistryCalls, TaskCalls, FileCalls, StudyCalls):
    """Speaks to an Estimand service.

    Without an address it is ESTIMAND_SERVER, or this machine; without a token, ESTIMAND_TOKEN; without files for TLS,
    ESTIMAND_AUTHORITY and ESTIMAND_CERTIFICATE. `others` are further services: each request goes to the first that
    serves it.
    """

    def __init__(
        self,
        address: Optional[str] = None,
        *,
        token: Optional[str] = None,
        authority: Optional[str] = None,
        certificate: Optional[str] = None,
        others: Sequence[str] = (),
        options: Optional[Options] = None,
    ) -> None:
        address = address or os.environ.get("ESTIMAND_SERVER") or DEFAULT
        credentials = Credentials.of(token, authority, certificate)
        super().__init__(Transport([address, *others], credentials, options or Options()))

    @property
    def withholds_token(self) -> bool:
        """True if a token is not sent to one of its services, because it would go over the network unencrypted."""
        return any(service.withholds_token for service in self._transport.services)

    def close(self) -> None:
        """Ends its connections."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()
