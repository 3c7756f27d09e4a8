"""HTTP connections with bounds: on heads of requests, on the time that requests take, on answers nobody reads, on their number."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_CONNECTIONS = 1000
MOST_OF_ADDRESS = 500       # or of a network /64 of IPv6, which is one customer's
MOST_HEAD_BYTES = 65_536
MOST_HEADERS = 128
MOST_PIPELINED = 16
SECONDS_FOR_HEAD = 10.0
SECONDS_FOR_REST = 60.0     # of a body that was answered before it had come
SECONDS_TO_FETCH = 30.0     # without one byte of the answer taken


class Connection(HttpToolsProtocol):
    """uvicorn's own with bounds: a head that is too long is answered 400; late ones are closed, and of too many the one that
    has been idle for longest."""

    _timer: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None
    _unread = 0         # bytes since the last part that was complete
    _is_whole = True    # whether the whole of the last request has come
    _heard = 0.0        # when something came last

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._heard, self._network = self.loop.time(), network_of(self.client[0] if self.client else "")
        self._expect_within(SECONDS_FOR_HEAD)
        others: list[Any] = [one for one in self.connections if one is not self and not one.transport.is_closing()]
        neighbors = [one for one in others if one._network == self._network]
        crowd = neighbors if len(neighbors) >= MOST_OF_ADDRESS else others if len(others) >= MOST_CONNECTIONS else None
        if crowd is not None:
            min((one for one in crowd if one.is_idle), key=lambda one: one._heard, default=self).transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost that may have been charged: no request has come as a whole, and no answer is on its way."""
        waits = self.cycle is None or self.cycle.response_complete or not self._is_whole
        return waits and not self.pipeline and not self.transport.get_write_buffer_size()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_within(None)
        if self._reader is not None:
            self._reader.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        self._heard = self.loop.time()
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._unread > MOST_HEAD_BYTES:
            self.send_400_response("The head of a request must be shorter.")
        elif self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._expect_within(SECONDS_FOR_HEAD)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > MOST_HEADERS:
            raise ValueError("too many headers")

    def on_headers_complete(self) -> None:
        self._unread, self._is_whole = 0, False
        self._expect_within(None)
        super().on_headers_complete()
        if len(self.pipeline) > MOST_PIPELINED:
            raise ValueError("too many requests at once")

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread, self._is_whole = 0, True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_whole:
            self._expect_within(SECONDS_FOR_REST)
        self._watch_reader()

    def _watch_reader(self, before: int | None = None) -> None:
        """Close the connection once nothing of an answer is taken any more; `before`: bytes that were there at the last look."""
        if self._reader is not None:
            self._reader.cancel()
        left = self.transport.get_write_buffer_size()
        if before is not None and left >= before:
            self.transport.abort()
        elif left:
            self._reader = self.loop.call_later(SECONDS_TO_FETCH, self._watch_reader, left)

    def _expect_within(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


def network_of(address: str) -> str:
    """Return what one sender can have many addresses of: the network /64 of an address of IPv6; another address as it is."""
    is_v6 = ":" in address and "." not in address  # or else one of IPv4, perhaps mapped, or no address
    return ipaddress.IPv6Address(address.partition("%")[0]).exploded[:19] if is_v6 else address
