"""Errors: a problem that the service answered with, by its kind, and what keeps an answer from coming."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional


class EstimandError(Exception):
    """Anything that goes wrong between this client and a service."""


class UnreachableError(EstimandError):
    """The service could not be reached, or did not answer in time."""


class ConnectError(UnreachableError):
    """No connection could be made, so nothing was done."""


class UntrustedError(EstimandError):
    """A server answers, but cannot show that it is the service, so the token is not shown to it."""


class UnexpectedError(EstimandError):
    """The server that answered does not speak the interface."""


class AddressError(EstimandError, ValueError):
    """The address is not that of a service."""


class DigestError(EstimandError):
    """The bytes that came are not those that were asked for."""


class TaskFailedError(EstimandError):
    """A task is over and did not succeed. Its last lines of output are in the text."""

    def __init__(self, text: str, task: Any) -> None:
        super().__init__(text)
        self.task = task


@dataclass(frozen=True)
class FieldError:
    """One wrong input."""

    field: str
    message: str
    given: Optional[str] = None
    expected: Optional[str] = None

    def __str__(self) -> str:
        text = f"{self.field}: {self.message}"
        if self.given is not None:
            text += f", given {self.given}"
        if self.expected is not None:
            text += f"; expected {self.expected}"
        return text


class Problem(EstimandError):
    """The service understood and said no. The text names each wrong input and what would be right."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.kind = str(document.get("type", ""))
        self.title = str(document.get("title", ""))
        self.status = int(document.get("status", 0))
        self.detail = str(document.get("detail", ""))
        self.errors = tuple(_field_error(error) for error in document.get("errors") or ())
        self.request_id: Optional[str] = document.get("requestId")
        self.retry_after: Optional[int] = document.get("retryAfter")
        super().__init__(self._text())

    def _text(self) -> str:
        # The detail of a problem with several errors has only the first.
        lines = [str(error) for error in self.errors] if len(self.errors) > 1 else [self.detail or self.title]
        remedy = _REMEDIES.get(self.kind)
        return "\n".join(lines) + (f" ({remedy})" if remedy else "")


def _field_error(error: Mapping[str, Any]) -> FieldError:
    names = ("field", "message", "given", "expected")
    return FieldError(**{name: error[name] for name in names if error.get(name) is not None})


class InvalidInputError(Problem):
    """400, 405, 413 or 415: the request is wrong as it stands; `errors` lists every wrong input."""


class UnauthorizedError(Problem):
    """401: the request needs a token, or this one is not valid."""


class ForbiddenError(Problem):
    """403: the role of the token does not include this."""


class NotFoundError(Problem):
    """404: there is no such thing, or not as it was asked for."""


class NotServedError(NotFoundError):
    """404: this service does not serve the path; another one may."""


class ConflictError(Problem):
    """409: the request contradicts what is there."""


class GoneError(Problem):
    """410: what is asked for is not kept any more. Of a feed: read the list anew, and go on from its revision."""


class PreconditionFailedError(Problem):
    """412: it is not at the version that was asked for."""


class ServiceError(Problem):
    """500 and others: a fault of the service, or of its disk."""


class UnavailableError(Problem):
    """503: not now; nothing was done."""


class StandingByError(UnavailableError):
    """503: this manager does not lead; the one that leads must be asked."""


class OutcomeUnknownError(Problem):
    """503: the request may or may not have taken effect."""


_KINDS: Mapping[str, type[Problem]] = {
    "invalid-input": InvalidInputError,
    "method-not-allowed": InvalidInputError,
    "too-large": InvalidInputError,
    "unsupported-media-type": InvalidInputError,
    "unauthorized": UnauthorizedError,
    "forbidden": ForbiddenError,
    "not-found": NotFoundError,
    "not-as-asked": NotFoundError,
    "no-such-field": NotFoundError,
    "not-served": NotServedError,
    "conflict": ConflictError,
    "unknown-node": ConflictError,
    "superseded": ConflictError,
    "node-taken": ConflictError,
    "gone": GoneError,
    "precondition-failed": PreconditionFailedError,
    "unavailable": UnavailableError,
    "standing-by": StandingByError,
    "outcome-unknown": OutcomeUnknownError,
}

# What a caller of this client does about it, where the service cannot know that.
_REMEDIES: Mapping[str, str] = {
    "unauthorized": "give the client `token=`, or set ESTIMAND_TOKEN",
    "standing-by": "give the client the addresses of the other managers with `others=`",
    "not-served": "give the client the addresses of the other services with `others=`",
}

# Problems of kinds that are not known here, by status.
_STATUSES: Mapping[int, type[Problem]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    412: PreconditionFailedError,
    503: UnavailableError,
}


def problem_of(document: Mapping[str, Any]) -> Problem:
    """The exception of a problem document. A newer service may send kinds that are not known here."""
    status = document.get("status", 0)
    fallback = _STATUSES.get(status, InvalidInputError if 400 <= status < 500 else ServiceError)
    return _KINDS.get(str(document.get("type")), fallback)(document)
