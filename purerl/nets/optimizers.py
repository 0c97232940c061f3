"""Optimizers of a learner: Adam, or those in `Spec(optimizer=...)`.

    Spec(env, optimizer=functools.partial(optax.adamw, weight_decay=1e-4))  # called with the rates
    Spec(env, optimizer=optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4)))
    Spec(env, optimizer=(("critic", optax.sgd),))  # the other groups keep Adam

A learning rate that changes is a schedule of Optax, counted in gradient steps:

    def decaying(lr):
        return optax.adam(optax.linear_schedule(lr, 0.0, transition_steps=10_000))

Settings are compared by value, and a function equals only itself. Make an optimizer once and share
it between specs, because each new one compiles the update again.
"""

from typing import Any

import optax


def make_optimizer(
    spec: Any, group: str, lr: float, b1: float = 0.9
) -> optax.GradientTransformation:
    """Return the optimizer of a group of parameters: Adam, unless the settings have another.

    Args:
        spec: Settings with a field `optimizer`.
        group: Field of `Params` that the optimizer updates, such as `actor` or `critic`.
        lr: Learning rate of the group, with which a function in `optimizer` is called.
        b1: Adam's decay rate of the mean of gradients.
    """
    return find_custom(spec, group, lr) or optax.adam(lr, b1=b1)


def find_custom(spec: Any, group: str, lr: float) -> optax.GradientTransformation | None:
    """Return the optimizer that the settings have for a group; None if they have none."""
    given = spec.optimizer
    if _is_pairs(given):
        given = dict(given).get(group)
    if given is None or isinstance(given, optax.GradientTransformation):
        return given
    made = given(lr)
    if not isinstance(made, optax.GradientTransformation):
        raise ValueError(
            f"optimizer must return an optax.GradientTransformation for the learning rate {lr}, "
            f"got {made!r}."
        )
    return made


def check_optimizer(optimizer: Any, groups: tuple[str, ...]) -> None:
    """Refuse anything but optimizers for some of these groups."""
    how = "an Optax transformation or a function of the learning rate, as optax.adamw"
    if isinstance(optimizer, dict):
        raise ValueError(
            f"optimizer must be hashable: give pairs, (('{groups[-1]}', optax.adamw),), got "
            f"{optimizer!r:.200}."
        )
    several = _is_pairs(optimizer)
    names = [group for group, _ in optimizer] if several else []
    if several and (not names or sorted(map(str, names)) != sorted({*map(str, names)})):
        raise ValueError(
            f"optimizer must have one pair for each group it changes, got {optimizer!r:.200}."
        )
    for group in names:
        if group not in groups:
            raise ValueError(
                f"optimizer has a group {group!r}; the groups are {', '.join(groups)}."
            )
    for one in [one for _, one in optimizer] if several else [optimizer]:
        good = callable(one) or isinstance(one, optax.GradientTransformation)
        if not good and (several or one is not None):
            raise ValueError(
                f"optimizer must be {how}, or a tuple of pairs of group and these, got "
                f"{one!r:.100}."
            )


def _is_pairs(optimizer: Any) -> bool:
    """Return whether an optimizer is a tuple of pairs; a transformation is a tuple, too."""
    is_tuple = isinstance(optimizer, tuple) and not isinstance(
        optimizer, optax.GradientTransformation
    )
    return is_tuple and all(isinstance(pair, tuple) and len(pair) == 2 for pair in optimizer)
