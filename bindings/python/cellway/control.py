"""A control client: the management protocol's requests as methods, with the types of its schema."""

import json
import secrets
from os import PathLike
from typing import Any

from . import _cellway
from ._cellway import NoService, ServiceGone
from ._schema import VERSION, Requests

__all__ = ["Client", "WrongRevision"]

# What changes the network is asked for under an id, so that the service makes it once.
_CHANGES = frozenset(
    ["add_circuit", "remove_circuit", "add_link", "remove_link", "set_link", "apply", "reset", "confirm", "oam_ask",
     "myrinet_send"]
)


class WrongRevision(_cellway.Error):
    """The expected revision is not the current one: nothing was done. `answer` has the changes since."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(f"revision {answer['expected_revision']} expected, {answer['revision']} found")
        self.answer = answer


class Client(Requests):
    """Requests to a service. Each blocks until the service has answered, for ten seconds at most.

    >>> Client().status()["endpoints"]  # doctest: +SKIP
    """

    def __init__(self, socket: str | PathLike[str] | None = None) -> None:
        self._socket = socket

    def _ask(self, request: Any, expect: int | None) -> Any:
        message: dict[str, Any] = {"version": VERSION, "request": request}
        name = request if isinstance(request, str) else next(iter(request))
        changes = name in _CHANGES
        if changes:
            message["id"] = secrets.token_hex(16)
        if expect is not None:
            message["expect"] = expect
        text = json.dumps(message)
        try:
            answer = json.loads(_cellway.request(text, socket=self._socket))
        except (NoService, ServiceGone):
            if not changes:
                raise
            # Under the same id it is made once, whether or not the first request was served.
            answer = json.loads(_cellway.request(text, socket=self._socket))
        if isinstance(answer, dict) and "expected_revision" in answer and "changes_since" in answer:
            raise WrongRevision(answer)
        return answer
