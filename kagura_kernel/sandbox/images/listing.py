"""Which images there could be and which there are."""

from __future__ import annotations

from dataclasses import dataclass

from kagura_kernel.sandbox.images.building import BuildPlan
from kagura_kernel.sandbox.images.daemon import ImageDaemon
from kagura_kernel.sandbox.images.recipes import BASE_LABEL, RECIPE_LABEL, RECIPES, Lock, Recipes


@dataclass(frozen=True, slots=True)
class Listed:
    """One recipe and its image.

    Attributes:
        name: The recipe.
        tag: The image's name, built or not.
        holds: What is in it beyond its base.
        locked: `locked`, `unlocked`, or `none` where there is nothing to lock.
        tested: Whether the tests build the recipe.
        id: The image's id; empty when it is not built.
        size: In bytes, its bases included.
        created: When it was made, as ISO 8601.
        base: Id of the image that it was built on; empty when nobody wrote it down.
        current: Whether it was made from the recipe as it is now, on the base that is there now.
        known: Whether a daemon said what there is; without one all of these from `id` on say nothing.
    """

    name: str
    tag: str
    holds: str
    locked: str
    tested: bool
    id: str = ""
    size: int = 0
    created: str = ""
    base: str = ""
    current: bool = False
    known: bool = True


def list_images(daemon: ImageDaemon, recipes: Recipes, plan: BuildPlan) -> list[Listed]:
    """Every recipe in the order of the chain.

    Raises:
        SandboxUnavailable: no daemon answers.
    """
    return [_listed(daemon, recipes, plan, number) for number in range(len(RECIPES))]


def list_recipes(recipes: Recipes, plan: BuildPlan) -> list[Listed]:
    """Every recipe in the order of the chain, where no daemon says which are built."""
    return [
        Listed(one.name, plan.tag(one), one.holds, recipes.lock_state(one), one.tested, known=False) for one in RECIPES
    ]


def _listed(daemon: ImageDaemon, recipes: Recipes, plan: BuildPlan, number: int) -> Listed:
    recipe = RECIPES[number]
    tag, locked = plan.tag(recipe), recipes.lock_state(recipe)
    found = daemon.inspect(tag)
    if found is None:
        return Listed(recipe.name, tag, recipe.holds, locked, recipe.tested)
    labels = (found.get("Config") or {}).get("Labels") or {}
    base = str(labels.get(BASE_LABEL, ""))
    below = next((plan.tag(one) for one in RECIPES if one.name == recipe.base), plan.base)
    under = daemon.inspect(below) if below else None
    same_base = under is None or str(under["Id"]) == base
    made_so = labels.get(RECIPE_LABEL) in {recipes.identity(recipe, base, lock) for lock in Lock}
    return Listed(
        recipe.name,
        tag,
        recipe.holds,
        locked,
        recipe.tested,
        id=str(found["Id"]),
        size=int(found.get("Size") or 0),
        created=str(found.get("Created") or ""),
        base=base,
        current=bool(base) and made_so and same_base,
    )
