"""A service in OpenAI's shape that does one thing wrong, on a thread."""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIMENSION = 8
SLOW_SECONDS = 1.0


def _good(texts):
    return {"data": [{"index": number, "embedding": [1.0 + number] * DIMENSION} for number in range(len(texts))]}


ANSWERS = {
    "good": lambda texts: (200, _good(texts)),
    "in another order": lambda texts: (200, {"data": _good(texts)["data"][::-1]}),
    "slow": lambda texts: time.sleep(SLOW_SECONDS) or (200, _good(texts)),
    "refuses": lambda texts: (401, {"error": f"no key for {texts}"}),
    "busy": lambda texts: (429, {}),
    "fails": lambda texts: (500, {"error": str(texts)}),
    "no JSON": lambda texts: (200, b"<html>"),
    "other fields": lambda texts: (200, {"rows": []}),
    "too few rows": lambda texts: (200, _good(texts[1:])),
    "rows of other lengths": lambda texts: (200, {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]}),
    "NaN": lambda texts: (200, {"data": [{"index": number, "embedding": [float("nan")]} for number in range(len(texts))]}),
    "words": lambda texts: (200, {"data": [{"index": number, "embedding": ["a"]} for number in range(len(texts))]}),
}


@contextlib.contextmanager
def upstream(kind):
    """Its address; the requests that it saw are in the list beside it."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            fields = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append((self.headers.get("Authorization"), fields))
            status, answer = ANSWERS[kind](fields["input"])
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", seen
        finally:
            server.shutdown()
            thread.join()
