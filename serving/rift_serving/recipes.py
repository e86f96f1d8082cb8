"""Recipes: YAML files that say how to serve a model, checked field by field.

One field means the same for every engine; what has no field goes to `extra_args`, and an argument
that a field already controls is refused there, so that a recipe says each thing once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from rift.errors import WrongUsage

SCHEMA = "rift.recipe/1"
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Bytes = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]*(\.[0-9]+)?(KiB|MiB|GiB)$")]
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

# vLLM arguments that a recipe field, or Rift itself, sets. (vLLM 0.32 `vllm serve --help`)
OWNED_ARGS = {
    "--model": "model",
    "--served-model-name": "the deployment's name",
    "--host": "rift deploy model --bind",
    "--port": "rift deploy model --port",
    "--api-key": "rift deploy model --api-key-file",
    "--revision": "revision",
    "--dtype": "dtype",
    "--quantization": "quantization",
    "-q": "quantization",
    "--max-model-len": "context_length",
    "--max-num-seqs": "max_concurrent_requests",
    "--max-num-batched-tokens": "max_batched_tokens",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--kv-cache-memory-bytes": "kv_cache_memory",
    "--gpu-memory-utilization": "gpu_memory_utilization",
    "--tensor-parallel-size": "parallel.tensor",
    "-tp": "parallel.tensor",
    "--pipeline-parallel-size": "parallel.pipeline",
    "-pp": "parallel.pipeline",
    "--data-parallel-size": "parallel.data",
    "-dp": "parallel.data",
    "--enable-expert-parallel": "parallel.expert",
    "--enforce-eager": "eager",
    "--enable-prefix-caching": "prefix_caching",
    "--no-enable-prefix-caching": "prefix_caching",
    "--trust-remote-code": "trust_remote_code",
    "--hf-token": "the environment (HF_TOKEN)",
    "--config": "the recipe itself",
}
SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)S?$")


def option(argument: str) -> str:
    """The option that an argument names, as vLLM reads it: "--max_model_len=5", --max-model-len."""
    name = argument.partition("=")[0]
    return name.replace("_", "-") if name.startswith("--") else name


def _means(name: str, owned: str) -> bool:
    """Whether argparse takes name for the owned option: in full, or as the beginning of it."""
    return name == owned or (len(name) > 3 and name.startswith("--") and owned.startswith(name))


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Parallel(_Strict):
    """How one model is split over GPUs. tensor x pipeline x data is the number of GPUs used."""

    tensor: int = Field(1, ge=1)
    pipeline: int = Field(1, ge=1)
    data: int = Field(1, ge=1)
    expert: bool = False


class Hardware(_Strict):
    """What the recipe was made for. `gpu` as nvidia-smi names the product, in short."""

    device: Literal["cpu", "cuda"]
    gpu: str | None = None
    gpu_count: int = Field(1, ge=1)


class Mock(_Strict):
    """What `engine: mock` does: every token at a known time after the request arrives."""

    ttft_ms: float = Field(50.0, ge=0, le=3.6e6)
    gap_ms: float = Field(10.0, ge=0, le=3.6e6)
    tokens_per_chunk: int = Field(1, ge=1)
    fail_every: int = Field(0, ge=0, description="every Nth request gets an error in the stream")


class Recipe(_Strict):
    """How to serve one model. Fields left out keep the engine's own default."""

    schema_: Literal["rift.recipe/1"] = Field(alias="schema")
    name: Name
    description: str = ""
    model: str = Field(min_length=1)
    revision: str | None = None
    engine: Literal["vllm", "mock"] = "vllm"
    hardware: Hardware
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    quantization: str | None = None
    context_length: int | None = Field(None, ge=16, le=100_000_000)
    extend_context: bool = Field(
        False, description="allow a context longer than the model was trained for (speed tests)"
    )
    max_concurrent_requests: int | None = Field(None, ge=1)
    max_batched_tokens: int | None = Field(None, ge=1)
    kv_cache_dtype: str | None = None
    kv_cache_memory: Bytes | None = None
    gpu_memory_utilization: float | None = Field(None, gt=0, le=1)
    parallel: Parallel = Parallel()
    eager: bool = False
    prefix_caching: bool | None = None
    trust_remote_code: bool = False
    extra_args: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    mock: Mock = Mock()
    source: str = Field("", description="where the settings were published")

    @field_validator("extra_args")
    @classmethod
    def _not_owned(cls, args: tuple[str, ...]) -> tuple[str, ...]:
        for name in map(option, args):
            owners = {OWNED_ARGS[owned] for owned in OWNED_ARGS if _means(name, owned)}
            if owners:
                raise ValueError(
                    f"{name} is set by {' or '.join(sorted(owners))}; take it out here"
                )
        return args

    @model_validator(mode="after")
    def _engine_takes_it(self) -> Self:
        if self.engine == "mock" and self.extra_args:
            raise ValueError("extra_args: engine mock takes none")
        if self.engine != "mock" and "mock" in self.model_fields_set:
            raise ValueError("mock: these settings need 'engine: mock'")
        return self

    @model_validator(mode="after")
    def _gpus_suffice(self) -> Self:
        parallel, gpus = self.parallel, self.hardware.gpu_count
        used = parallel.tensor * parallel.pipeline * parallel.data
        if self.hardware.device == "cuda" and used > gpus:
            raise ValueError(f"parallel: {used} GPUs used, hardware.gpu_count is {gpus}")
        return self

    @field_validator("environment")
    @classmethod
    def _no_secret(cls, environment: dict[str, str]) -> dict[str, str]:
        for key in environment:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key) or "\0" in environment[key]:
                raise ValueError(f"{key!r} and its value cannot stand in an environment")
            if SECRET.search(key):
                raise ValueError(f"{key} looks like a secret; recipes hold none: export it instead")
        return environment


@dataclass(frozen=True)
class Source:
    """A recipe and the file it came from; None for one made from defaults."""

    recipe: Recipe
    path: Path | None


def directory() -> Path:
    """The recipes that ship with Rift: beside the package in a checkout, inside it in a wheel."""
    inside = Path(__file__).parent / "recipes"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "recipes"


def shipped() -> dict[str, Path]:
    """Every shipped recipe: name -> file."""
    return {path.stem: path for path in sorted(directory().glob("*.yaml"))}


class _Loader(yaml.SafeLoader):
    """YAML in which a key stands once: the last of two would win in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise yaml.YAMLError(f"{twice[0]!r} stands there twice{node.start_mark}")
        return super().construct_mapping(node, deep)


def load(name_or_path: str) -> Source:
    """Read a shipped recipe by name, or a file.

    Raises WrongUsage listing every field that is wrong, each with its path in the file.
    """
    path = shipped().get(name_or_path, Path(name_or_path))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(
            f"recipe {name_or_path!r}: neither a readable file ({error}) nor one of the shipped: "
            + ", ".join(shipped())
        ) from error
    return Source(parse(text, str(path)), path)


def parse(text: str, where: str) -> Recipe:
    """A recipe from its YAML text; `where` names it in errors."""
    try:
        data: Any = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise WrongUsage(f"{where}: not YAML: {error}") from error
    if not isinstance(data, dict):
        raise WrongUsage(f"{where}: expected a mapping with 'schema: {SCHEMA}', got {data!r:.60}")
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        raise WrongUsage(f"{where}:\n" + "\n".join(problems(error))) from error


def problems(error: ValidationError) -> list[str]:
    """One line for each wrong field: `path: what is wrong (got ...)`."""
    lines = []
    for one in error.errors():
        path = ".".join(str(part) for part in one["loc"]) or "recipe"
        if one["type"] == "extra_forbidden":
            lines.append(f"  {path}: unknown field; known: {', '.join(_known(one['loc']))}")
        else:
            lines.append(f"  {path}: {one['msg']} (got {one['input']!r:.60})")
    return lines


def _known(path: tuple[int | str, ...]) -> list[str]:
    """The fields of the mapping that a path's last part was looked up in."""
    model: type[BaseModel] = Recipe
    for part in path[:-1]:
        inner = model.model_fields[str(part)].annotation
        assert isinstance(inner, type)
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def size_bytes(text: str) -> int:
    """Bytes in a size such as '1.5GiB'."""
    return int(float(text[:-3]) * UNITS[text[-3:]])
