"""What a model's name stands for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rift.errors import WrongUsage
from rift_serving import models


def quiet(_: str) -> None:
    pass


def test_a_directory_tells_its_sizes(tmp_path: Path) -> None:
    config = {"max_position_embeddings": 4096, "torch_dtype": "bfloat16"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model-1.safetensors").write_bytes(b"x" * 100)
    (tmp_path / "model-2.safetensors").write_bytes(b"x" * 50)

    model = models.resolve(str(tmp_path), quiet)

    assert (model.weight_bytes, model.weight_dtype, model.trained_context) == (
        150,
        "bfloat16",
        4096,
    )


def test_a_directory_without_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match=r"config\.json"):
        models.resolve(str(tmp_path), quiet)


def test_a_hub_id_is_left_to_the_engine() -> None:
    assert models.resolve("Qwen/Qwen3-0.6B", quiet) == models.Model(
        "Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B", is_local=False
    )


@pytest.mark.parametrize(
    "name", ["smollm", "", "a/b/c", "./missing", "../missing", "/no/such", "x y/z"]
)
def test_anything_else_is_unknown(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(WrongUsage, match="smollm2-135m"):
        models.resolve(name, quiet)


def test_a_dry_run_makes_nothing(home: Path) -> None:
    told: list[str] = []

    model = models.resolve("smollm2-135m", told.append, make=False)

    assert model.location == str(home / "models" / "smollm2-135m")
    assert not home.exists()
    assert "would be fetched" in told[0]


@pytest.mark.parametrize("damage", ["model.safetensors", "rift-model.json"])
def test_a_changed_or_missing_file_is_noticed(tmp_path: Path, damage: str) -> None:
    made = tmp_path / "made"
    made.mkdir()
    (made / "model.safetensors").write_bytes(b"weights")
    manifest = {"files": {"model.safetensors": models.sha256(made / "model.safetensors")}}
    (made / "rift-model.json").write_text(json.dumps(manifest))
    assert models._is_intact(made, quiet)

    (made / damage).write_bytes(b"something else")

    told: list[str] = []
    assert not models._is_intact(made, told.append)
    assert "making it again" in told[0]
