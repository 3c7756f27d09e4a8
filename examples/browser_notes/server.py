"""Notes in a browser, searched on a server that never sees a clean vector: run it, and open http://127.0.0.1:8321/notes/.

    python examples/browser_notes/server.py [PORT]      # after `make web`, which builds js/src/hushvec.wasm

The page has the notes and their vectors, here the package's invented ones. It releases them as codes of a public codebook, with a
receipt, and keeps what they cost in the browser; the server checks the receipt, stores the rows in `browser_notes.sqlite`, and
answers questions that were released the same way. The page ranks what comes back by its own clean vectors.
"""

import base64
import hashlib
import re
import sys
import tempfile
from importlib import resources
from pathlib import Path

import numpy as np
import uvicorn
from starlette.staticfiles import StaticFiles

from hushvec.data import public_sentence_vectors
from hushvec.mechanisms import PublicCodebook
from hushvec.serve import Policy, create_app

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "js" / "src"
DATA = str(resources.files("hushvec") / "data")
POLICY = {
    "version": 1,
    "store": "browser_notes.sqlite",
    "models": {"minilm": {"kind": "minilm"}},   # for other clients; this page brings vectors
    "tenants": {"notes": {"models": ["minilm"], "epsilon": 8.0, "budget": {"epsilon": 80.0}, "releases": {"epsilon": 8.0}}},
}
MAP = re.search(r'<script type="importmap">(.*?)</script>', (HERE / "index.html").read_text(), re.DOTALL)[1]
POLICY_OF_CONTENT = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval' 'sha256-{}'; connect-src 'self'; style-src 'self'"


class Files(StaticFiles):
    """Files under a policy that runs this page's modules and its import map, and nothing else."""

    async def get_response(self, path, scope):
        response = await super().get_response(path, scope)
        digest = base64.b64encode(hashlib.sha256(MAP.encode()).digest()).decode()
        response.headers["Content-Security-Policy"] = POLICY_OF_CONTENT.format(digest)
        return response


def save_codebook(folder):
    """Three of four public sentences: the page answers with them, and asks with the rest."""
    PublicCodebook.of(np.delete(public_sentence_vectors(), np.s_[3::4], axis=0)).save(Path(folder) / "codebook.npz")


def app(folder):
    save_codebook(folder)
    service = create_app(Policy.model_validate(POLICY), host="127.0.0.1")
    service.mount("/notes/hushvec", Files(directory=PACKAGE))
    service.mount("/notes/codebook", Files(directory=folder))
    service.mount("/notes/data", Files(directory=DATA))
    service.mount("/notes", Files(directory=HERE, html=True))
    return service


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        uvicorn.run(app(folder), host="127.0.0.1", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8321, log_level="warning")
