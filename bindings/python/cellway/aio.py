"""Receiving and accepting in an asyncio loop, by the object's descriptor: no thread, and no polling."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from ._cellway import Call, Endpoint, Receiver, Sdu, Session

__all__ = ["accept", "receive", "sdus"]

T = TypeVar("T")


async def _readable(fd: int) -> None:
    """Waits until a descriptor is readable."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(fd)


async def _taken(source: Endpoint | Receiver, take: Callable[[], T | None]) -> T:
    while True:
        if (taken := take()) is not None:
            return taken
        source.arm()
        try:
            # What came just before is told by no bell.
            if (taken := take()) is not None:
                return taken
            await _readable(source.fileno())
        finally:
            source.disarm()


async def receive(source: Endpoint | Receiver) -> Sdu:
    """The next SDU. Raises `ServiceGone` or `PeerGone` when there are no more."""
    return await _taken(source, lambda: source.receive(0))


async def sdus(source: Endpoint | Receiver) -> AsyncIterator[Sdu]:
    """The SDUs that come, without an end."""
    while True:
        yield await receive(source)


async def accept(session: Session) -> Call:
    """The next call, which is answered."""
    while True:
        if (call := session.accept(0)) is not None:
            return call
        await _readable(session.fileno())
