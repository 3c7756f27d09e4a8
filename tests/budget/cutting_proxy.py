"""A TCP proxy that loses a connection at a chosen moment: around the word COMMIT."""

import contextlib
import socket
import threading
import time

COMMIT = b"\x0bCOMMIT\x00"  # as a whole message; BEGIN ... READ COMMITTED has the letters too


class CuttingProxy:
    """`with CuttingProxy(port) as proxy`: forwards to a port of this machine, and cuts when armed.

    arm("request"): cuts instead of passing the next COMMIT on. arm("answer"): passes it on, and cuts instead of its answer.
    """

    def __init__(self, port):
        self._target = port
        self._armed = None
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listening.close()

    def arm(self, what):
        self._armed = what

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                cut = threading.Event()
                threading.Thread(target=self._requests, args=(client, server, cut), daemon=True).start()
                threading.Thread(target=self._answers, args=(server, client, cut), daemon=True).start()

    def _requests(self, client, server, cut):
        for some in _received(client):
            if self._armed and COMMIT in some:
                what, self._armed = self._armed, None
                cut.set()
                if what == "answer":
                    server.sendall(some)
                    time.sleep(0.3)  # the server commits meanwhile
                break
            server.sendall(some)
        _close(client, server)

    def _answers(self, server, client, cut):
        for some in _received(server):
            if cut.is_set():
                break
            with contextlib.suppress(OSError):
                client.sendall(some)


def _received(end):
    with contextlib.suppress(OSError):
        while some := end.recv(1 << 16):
            yield some


def _close(*ends):
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
