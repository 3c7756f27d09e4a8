"""A model's folder, found here or on the Hugging Face hub: its JSON and weight files and its tokenizer; the device it runs on.

What cannot be used raises CheckpointError with a message of one line.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec.errors import HushvecError

CONFIG_FILE = "config.json"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
# In the order in which they are looked for.
WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
WEIGHTS = "model.safetensors or pytorch_model.bin (or their .index.json with shards)"

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_INDEX_SUFFIX = ".index.json"
# Put before names by DataParallel and torch.compile when a wrapped model is saved.
_WRAPPERS = ("module.", "_orig_mod.")


class CheckpointError(HushvecError, ValueError):
    """A model's folder that cannot be used: a file or field missing, of the wrong kind, or weights that do not fit."""


def find_folder(path_or_id: str | os.PathLike[str], *, expected: str, weights: bool = True) -> Path:
    """Return the folder of a model, or of a repository on the Hugging Face hub, which is downloaded once and then cached, unless
    HF_HUB_OFFLINE is set. An error names the `expected` files; with `weights` weight files are wanted from the hub too."""
    validate.instance("a checkpoint", path_or_id, str | os.PathLike, "a folder or a hub id")
    path = Path(path_or_id).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise CheckpointError(f"{path} is a file; expected a folder with {expected}")
    if not isinstance(path_or_id, str) or not _HUB_ID.fullmatch(path_or_id):
        raise CheckpointError(f"{path}: no such folder; expected a folder with {expected}")
    return _from_hub(path_or_id, expected, weights)


def _from_hub(name: str, expected: str, weights: bool) -> Path:
    with needs_extra("reading a model from the Hugging Face hub", "text"):
        from huggingface_hub import snapshot_download
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")

    try:
        # The older format of weights only where the newer one is not there: a repository often has both.
        for kind in ("*.safetensors", "*.bin"):
            patterns = ["*.json", kind] if weights else ["*.json"]
            folder = Path(snapshot_download(name, allow_patterns=patterns, local_files_only=offline))
            if not weights or any((folder / file).exists() for file in WEIGHT_FILES[:2]):
                break
        return folder
    except Exception as error:  # the hub's client raises classes of its own, of requests and of httpx, by version
        reason = "HF_HUB_OFFLINE is set and it is not in the cache" if offline else _first_line(error)
        raise CheckpointError(
            f"{name!r} is no folder here, and the Hugging Face hub did not give it ({reason}); expected a folder with {expected}"
        ) from None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def require_file(folder: Path, name: str, purpose: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise CheckpointError(f"{folder} has no {name} ({purpose})")
    return path


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON: {_first_line(error)}") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold a JSON object, got {validate.kind(content)}")
    return content


def size_field(content: Mapping[str, Any], name: str, where: str) -> int:
    if name not in content:
        raise CheckpointError(f"{where} needs the field {name} (a whole number >= 1)")
    value = content[name]
    _require(_is(int, value) and value >= 1, where, name, "a whole number >= 1", value)
    return int(value)


def _require(fits: bool, where: str, name: str, rule: str, value: Any) -> None:
    if not fits:
        raise CheckpointError(f"{where}: {name} must be {rule}, got {value!r}")


def _is(kind: Any, value: Any) -> bool:
    """Return whether it is a number of this kind, which a bool is not."""
    return isinstance(value, kind) and not isinstance(value, bool)


# ---- T5 ----

T5_SIZES = ("vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads")
# What the original T5 has where a configuration is silent. Whatever else a configuration says does not enter the computation.
T5_DEFAULTS: Mapping[str, Any] = {
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "dropout_rate": 0.1,
    "layer_norm_epsilon": 1e-6,
    "initializer_factor": 1.0,
    "feed_forward_proj": "relu",
    "tie_word_embeddings": True,
    "decoder_start_token_id": 0,
    "pad_token_id": 0,
    "eos_token_id": 1,
}
_T5_TOKENS = ("decoder_start_token_id", "pad_token_id", "eos_token_id")
_T5_NUMBERS = ("dropout_rate", "layer_norm_epsilon", "initializer_factor")
_T5_ACTIVATIONS = ("relu", "gated-gelu", "gated-relu", "gated-silu", "gelu")


def checked_t5(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the fields of a transformers.T5Config that shape it, defaults filled in."""
    kind = fields.get("model_type", "t5")
    _require(kind == "t5", where, "model_type", "'t5'", kind)
    checked: dict[str, Any] = {name: size_field(fields, name, where) for name in T5_SIZES}
    layers = "num_decoder_layers"
    checked[layers] = checked["num_layers"] if fields.get(layers) is None else size_field(fields, layers, where)
    checked |= {name: default if fields.get(name) is None else fields[name] for name, default in T5_DEFAULTS.items()}
    for name in ("relative_attention_num_buckets", "relative_attention_max_distance"):
        size_field(checked, name, where)
    for name in _T5_TOKENS:
        token = checked[name]
        _require(_is(int, token) and 0 <= token < checked["vocab_size"], where, name, "a token below vocab_size", token)
    for name in _T5_NUMBERS:
        number = checked[name]
        _require(_is(int | float, number) and 0 <= number < math.inf, where, name, "a number >= 0", number)
    activation, tied = checked["feed_forward_proj"], checked["tie_word_embeddings"]
    _require(activation in _T5_ACTIVATIONS, where, "feed_forward_proj", f"one of {', '.join(_T5_ACTIVATIONS)}", activation)
    _require(isinstance(tied, bool), where, "tie_word_embeddings", "true or false", tied)
    return checked


def read_t5(folder: Path) -> dict[str, Any]:
    """Return the T5 that config.json of a T5's own folder describes."""
    path = require_file(folder, CONFIG_FILE, "the T5's configuration")
    return checked_t5(read_json(path), str(path))


def encoder_fields(weights: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the T5 whose encoder has these weights ("encoder. ..."), by their shapes, and else what the original T5 has."""
    first = "encoder.block.0.layer."
    gated = f"{first}1.DenseReluDense.wi_0.weight" in weights

    def shape(name: str) -> tuple[int, int]:
        if name not in weights or weights[name].ndim != 2:
            raise CheckpointError(f"{where}: the weights have no {name} (a matrix), which a T5's encoder needs")
        rows, columns = weights[name].shape
        return int(rows), int(columns)

    vocabulary, width = shape("encoder.embed_tokens.weight")
    buckets, heads = shape(f"{first}0.SelfAttention.relative_attention_bias.weight")
    inner = shape(f"{first}0.SelfAttention.q.weight")[0]
    fields = {
        "vocab_size": vocabulary,
        "d_model": width,
        "d_kv": inner // max(heads, 1),
        "d_ff": shape(f"{first}1.DenseReluDense.{'wi_0' if gated else 'wi'}.weight")[0],
        "num_layers": len({name.split(".")[2] for name in weights if name.startswith("encoder.block.")}),
        "num_heads": heads,
        "relative_attention_num_buckets": buckets,
        "feed_forward_proj": "gated-gelu" if gated else "relu",
    }
    return checked_t5(fields, where)


# ---- weights ----


def read_weights(folder: Path, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, Any]:
    """Return weights of a folder on the CPU as float32, by name, without prefixes of wrappers; safetensors come first."""
    path = next((folder / name for name in WEIGHT_FILES if (folder / name).is_file()), None)
    if path is None:
        raise CheckpointError(f"{folder} has no weights; expected {WEIGHTS}")
    weights: dict[str, Any] = {}
    for shard in [path] if not path.name.endswith(_INDEX_SUFFIX) else _shards(path):
        read = _read_safetensors if shard.suffix == ".safetensors" else _read_bin
        for name, tensor in read(shard, wanted).items():
            if name in weights:
                raise CheckpointError(f"{shard} has {name} a second time")
            if not tensor.is_floating_point():
                raise CheckpointError(f"{shard}: {name} must be floating-point, got {tensor.dtype}")
            weights[name] = tensor.float()
            if not bool(weights[name].isfinite().all()):
                raise CheckpointError(f"{shard}: {name} holds NaN or infinity")
    return weights


def bare_name(name: str) -> str:
    while name.startswith(_WRAPPERS):
        name = name.split(".", 1)[1]
    return name


def _shards(index: Path) -> list[Path]:
    named = read_json(index).get("weight_map")
    if not isinstance(named, dict) or not named or not all(isinstance(file, str) for file in named.values()):
        raise CheckpointError(f"{index} needs the field weight_map (from names of weights to names of files)")
    shards = []
    for file in sorted(set(named.values())):
        if Path(file).name != file:
            raise CheckpointError(f"{index}: a shard must be a file beside it, got {file!r}")
        if not (index.parent / file).is_file():
            raise CheckpointError(f"{index.parent} has no {file}, which {index.name} names")
        shards.append(index.parent / file)
    return shards


def _read_safetensors(path: Path, wanted: Callable[[str], bool]) -> dict[str, Any]:
    with needs_extra("reading weights", "text"):
        from safetensors import SafetensorError, safe_open
    try:
        with safe_open(str(path), framework="pt", device="cpu") as file:
            return {bare_name(name): file.get_tensor(name) for name in file.keys() if wanted(bare_name(name))}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read as safetensors: {_first_line(error)}") from None


def _read_bin(path: Path, wanted: Callable[[str], bool]) -> dict[str, Any]:
    with needs_extra("reading weights", "text"):
        import torch
    from pickle import UnpicklingError

    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, OSError, EOFError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as a file of tensors alone: {_first_line(error)}") from None
    if not isinstance(content, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in content.values()):
        raise CheckpointError(f"{path} must hold a state dict: tensors by name")
    return {bare_name(name): tensor for name, tensor in content.items() if wanted(bare_name(name))}


def fill(module: Any, weights: Mapping[str, Any], *, shared: tuple[tuple[str, ...], ...], where: str) -> None:
    """Put weights into a torch module, every one of them and nothing else; `shared` are groups of names that are one tensor."""
    weights = dict(weights)
    for group in shared:
        there = [name for name in group if name in weights]
        for name in there[1:]:
            if weights[name].shape != weights[there[0]].shape or not bool((weights[name] == weights[there[0]]).all()):
                raise CheckpointError(f"{where}: {there[0]} and {name} are one tensor by {CONFIG_FILE}, but differ in the weights")
        if there:
            weights.update(dict.fromkeys(group, weights[there[0]]))
    expected = module.state_dict()
    missing = [name for name in expected if name not in weights]
    if missing:
        raise CheckpointError(f"{where}: the weights have no {_listed(missing)}")
    unknown = [name for name in weights if name not in expected]
    if unknown:
        raise CheckpointError(f"{where}: the weights have {_listed(unknown)}, which this model has no place for")
    for name, tensor in expected.items():
        if tensor.shape != weights[name].shape:
            found, shape = (" x ".join(map(str, one.shape)) for one in (weights[name], tensor))
            raise CheckpointError(f"{where}: {name} is {found} in the weights, {shape} by {CONFIG_FILE}")
    module.load_state_dict(weights)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def chosen_device(device: Any) -> Any:
    """Return a torch.device that there is: the one that is named; for None CUDA's first if there is one, else the CPU."""
    with needs_extra("a model of text", "text"):
        import torch
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        known = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"device must be a device of torch, such as 'cpu' or 'cuda', got {device!r}") from None
    if known.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device must be one that is there: torch finds no CUDA here, got {device!r}")
    return known


# What English tokenizers put a space before and a reader does not, in the order in which it is replaced.
_SPACED = [
    *((f" {mark}", mark) for mark in ".?!,"),
    (" ' ", "'"),
    *((f" {ending}", ending) for ending in ("n't", "'m", "'s", "'ve", "'re")),
]
TIDY = "clean_up_tokenization_spaces"


class Tokens:
    """A tokenizers.Tokenizer; `tidy` says whether texts are made without the space before a full stop and the like."""

    def __init__(self, tokenizer: Any, *, tidy: bool = True) -> None:
        self.tokenizer = tokenizer
        self.tidy = tidy
        tokenizer.no_padding()
        tokenizer.no_truncation()

    @classmethod
    def read(cls, folder: Path) -> Tokens:
        """Return the tokenizer of a folder: tokenizer.json, and what tokenizer_config.json says of spaces if it is there."""
        with needs_extra("reading a tokenizer", "text"):
            from tokenizers import Tokenizer
        path = require_file(folder, TOKENIZER_FILE, "the tokenizer; `save_pretrained` of transformers' fast tokenizers writes one")
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises Exception itself
            raise CheckpointError(f"{path} cannot be read as a tokenizer: {error}") from None
        config = folder / TOKENIZER_CONFIG_FILE
        # Silent configurations are those of older releases of transformers, which tidied.
        tidy = read_json(config).get(TIDY, True) if config.is_file() else True
        return cls(tokenizer, tidy=bool(tidy))

    @property
    def size(self) -> int:
        return int(max(self.tokenizer.get_vocab().values(), default=-1)) + 1

    def ids(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Return token ids of texts, special tokens included, at most max_length of them each."""
        self.tokenizer.enable_truncation(max_length)
        try:
            return [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        finally:
            self.tokenizer.no_truncation()

    def texts(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """Return texts of token ids, without special tokens; ids that the tokenizer does not have are left out."""
        texts = self.tokenizer.decode_batch([list(row) for row in rows], skip_special_tokens=True)
        for spaced, tidy in _SPACED if self.tidy else ():
            texts = [text.replace(spaced, tidy) for text in texts]
        return list(texts)
