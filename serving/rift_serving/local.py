"""A request for a local deployment, from names to a launch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rift.errors import WrongUsage
from rift_serving import api_key, deployment, launch, models, select_recipe
from rift_serving.launch import Launch
from rift_serving.models import Model
from rift_serving.recipes import Recipe, Source

NAME = re.compile(r"^[a-z0-9][a-z0-9._-]{0,62}$")


@dataclass(frozen=True)
class Request:
    """What a user asks for; None leaves the choice to the recipe or the machine.

    needed_context: raise the recipe's context to this many tokens if it is shorter.
    """

    model: str
    recipe: str | None = None
    name: str | None = None
    port: int | None = None
    bind: str = "127.0.0.1"
    context: int | None = None
    api_key_file: Path | None = None
    needed_context: int | None = None


def plan(request: Request, say: Callable[[str], None], dry_run: bool = False) -> Launch:
    """Check everything that can be checked and say what would be started. Starts nothing.

    A model that Rift makes is made here, but not in a dry run. Raises WrongUsage or Blocked.
    """
    if not request.model.strip():
        raise WrongUsage("the model's name is empty; give smollm2-135m, a directory or a hub id")
    source = select_recipe.select(request.model, request.recipe)
    recipe = source.recipe
    name = request.name or _name(request.model)
    if not NAME.match(name):
        raise WrongUsage(
            f"name {name!r}: expected lower-case letters, digits, '.', '_' and '-', at most 63"
        )
    key, _ = api_key.read(request.api_key_file)
    deployment.check_bind(request.bind, key)
    deployment.check_free(name)
    port = deployment.choose_port(request.bind, request.port)
    _say_recipe(source, request, say)
    model = _model(request.model, recipe, say, dry_run)
    recipe = _adjusted(recipe, request, model)
    return launch.plan(name, recipe, model, request.bind, port)


def has_key(request: Request) -> bool:
    """Whether the engine will ask for an API key."""
    return api_key.read(request.api_key_file)[0] is not None


def _adjusted(recipe: Recipe, request: Request, model: Model) -> Recipe:
    """Recipe with the request's context, raised where a benchmark needs a longer one."""
    if request.context is not None:
        recipe = recipe.model_copy(update={"context_length": request.context})
    needed, has = request.needed_context, recipe.context_length or model.trained_context
    if needed is None or (has is not None and needed <= has):
        return recipe
    # A benchmark measures speed: it may go past the context that the model was trained for.
    return recipe.model_copy(update={"context_length": needed, "extend_context": True})


def _name(model: str) -> str:
    last = model.rstrip("/").rpartition("/")[2].lower()
    return re.sub(r"[^a-z0-9._-]+", "-", last).strip("-._")[:63] or "model"


def _model(name: str, recipe: Recipe, say: Callable[[str], None], dry_run: bool) -> Model:
    if recipe.engine == "mock":
        return Model(name=name, location="", is_local=True)
    return models.resolve(name, say, make=not dry_run)


def _say_recipe(source: Source, request: Request, say: Callable[[str], None]) -> None:
    if source.path is None:
        say("no recipe for this model and machine: the engine's defaults")
        return
    say(f"recipe {source.recipe.name} ({source.path})")
    if source.recipe.model != request.model:
        say(f"note: the recipe was written for {source.recipe.model}, you serve {request.model}")
