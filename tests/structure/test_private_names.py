"""Private names of other packages: each is listed with what happens in a release without it, and a new one fails."""

import ast
import re

from structure.test_structure import MODULES, PACKAGE

# The folder or module that uses them: name -> what a release without it does.
KNOWN = {
    "_native/__init__.py": dict.fromkeys(
        ("_interpreters", "_xxsubinterpreters"), "Python's own; the check of subinterpreters is left out"
    ),
    "jobs/tables.py": {"_data_files": "a key of the file state.json, which save_to_disk writes"},
    "_util/torch_recording.py": dict.fromkeys(
        ("_C", "_len_torch_dispatch_stack", "_functorch"), "public means find the same, a few microseconds slower"
    ),
    "cli/_parser.py": {"_actions": "Python's own; no public name"},
    "embedders/checkpoints.py": {"_orig_mod": "an error that names the missing weights"},
    "integrations/datasets.py": {"_fingerprint": "results are computed again, not read from the cache"},
    "integrations/llama_index_store.py": {"_node_type": "a field of metadata is left out"},
    "integrations/sklearn.py": {"_sklearn_output_config": "a clone forgets set_output"},
    "serve/app.py": {"_exit": "Python's own, documented"},
    "training/model_watch.py": dict.fromkeys(("_version", "_buffers", "_modules"), "an error at import that names what is missing"),
    "training/ghost_layers.py": {"_version": "the same error: it needs model_watch"},
    "training/ghost_recurrent.py": {"_version": "the same error: it needs model_watch"},
    "training/shards.py": {
        **dict.fromkeys(("_forward_pre_hooks", "_forward_hooks"), "an error at import that names what is missing"),
        **dict.fromkeys(("_get_fsdp_state", "_mp_policy"), "FSDP's mixed precision is ignored, not refused"),
    },
    "training/opacus_engine.py": dict.fromkeys(
        ("_processed", "_adjusted_noise_multiplier"), "secure_opacus refuses releases of Opacus that it was not tested with"
    ),
}
# Parts of names of our own, and methods that Python and notebooks document.
OURS = {"_asdict", "_core", "_cuda", "_repr_html_", "_row_of", "_ci_lower", "_ci_upper", "_hnsw", "_token_id", "_format"}
_PRIVATE = re.compile(r"_[A-Za-z]\w*")


def defined(tree):
    """Every name that a module gives to something of its own."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) in ("self", "cls"):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg


def mentioned(tree):
    """Private names in attributes, in imports, and in strings of names with dots between them."""
    for node in ast.walk(tree):
        words = []
        if isinstance(node, ast.Attribute):
            words = [node.attr]
        elif isinstance(node, ast.Import):
            words = [word for alias in node.names for word in alias.name.split(".") if not alias.name.startswith("hushvec")]
        elif isinstance(node, ast.ImportFrom) and not node.module.startswith("hushvec"):
            words = [*node.module.split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w.]+", node.value):
            words = node.value.split(".")
        yield from (word for word in words if _PRIVATE.fullmatch(word))


def of_others(trees):
    """The private names that a module mentions and no module defines, by module."""
    ours = OURS.union(*map(defined, trees.values()))
    found = {path: set(mentioned(tree)) - ours for path, tree in trees.items()}
    return {path: names for path, names in found.items() if names}


def test_the_finder_finds():
    source = "import torch._dynamo\nfrom a._b import _c\ntorch._C._x()\ngetattr(x, '_y')\n'a._z.b'\nself._own = self._own\n'a _text'"
    assert of_others({"a": ast.parse(source)}) == {"a": {"_dynamo", "_b", "_c", "_C", "_x", "_y", "_z"}}


def test_every_private_name_of_another_package_is_known():
    trees = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in MODULES.values()}
    trees["stub"] = ast.parse((PACKAGE / "_native" / "_core.pyi").read_text())
    ours = {part.removesuffix(".py") for path in trees for part in path.split("/")}
    found = {path: names - ours for path, names in of_others(trees).items() if names - ours}
    assert found == {path: set(names) for path, names in KNOWN.items()}
