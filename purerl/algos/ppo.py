r"""PPO: reuse each rollout for many gradient steps; clipping discourages large policy changes.

Clipping removes the incentive to move r, the ratio of new to old probabilities, far from 1.

.. math::
    r = \frac{\pi_\theta(a | s)}{\pi_{old}(a | s)}, \qquad
    L(\theta) = -\mathbb{E}\,[w \min(r \hat A, \mathrm{clip}(r, 1 - \epsilon, 1 + \epsilon) \hat A)]
        - c \, \mathbb{E}\,[w H(\pi_\theta)], \qquad
    L(\phi) = \mathbb{E}\,[w \, (V_\phi(s) - \hat R)^2]

Reference: Schulman et al., 2017, https://arxiv.org/abs/1707.06347.

Differences from the paper: Spinning Up's numbers are the defaults, with 80 full-batch steps of each
network. The KL is tested before each policy step, and the steps stop if it exceeds 1.5 times
`target_kl`. Its estimate, averaged over ranks, is :math:`\mathbb{E}\,[r - 1 - \log r] \ge 0`.
Advantages are standardised once per rollout, over the rows of all ranks. w is 1, c is `ent_coef`.

Options that Spinning Up lacks are off by default. `normalise_obs` and `scale_rewards` keep running
statistics in `Params`; `update` changes them at its end. With `scale_rewards`, values are in scaled
units. The scale comes from discounted sums of rewards, which begin anew with each rollout.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, moments, mpi, nets, returns
from purerl.buffers import minibatches
from purerl.fields import network_setting, setting
from purerl.nets import policies
from purerl.schedules import OnPolicySchedule
from purerl.spaces import EnvSpec, require_flat
from purerl.types import Metrics, PolicyBatch, Rollout


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a PPO learner: hashable and compared by value.

    `actor` and `critic` are custom networks, or None for an MLP. The actor maps observations
    `[B, *obs_shape]` to logits `[B, n]`, or to mean and log std `[B, A]` in normalised units. The
    critic maps observations to values `[B]`. `optimizer` replaces Adam (`purerl.nets.optimizers`).
    """

    env: EnvSpec
    actor: Any = None
    critic: Any = None
    optimizer: Any = None
    hidden: tuple[int, ...] = network_setting((64, 64), "units of the hidden layers", flag="--hid")
    activation: str = network_setting("tanh", "activation of the hidden layers", flag="--act")
    initializer: str = network_setting("torch_uniform", "initializer of all layers", rare=True)
    torso: str | None = network_setting(None, "network for images: nature_cnn", rare=True)
    log_std_init: float = network_setting(-0.5, "initial log std (actions in [-1, 1])", rare=True)
    head_scale: float = network_setting(1.0, "initial scale of the last policy layer", rare=True)
    gamma: float = setting(0.99, "discount factor")
    lam: float = setting(0.97, "GAE lambda: 0 uses one-step errors, 1 full returns")
    value_target: str = setting("mc", "value target: mc (reward-to-go) or lambda (GAE)", rare=True)
    clip_ratio: float = setting(0.2, "clip range of the probability ratio")
    pi_lr: float = setting(3e-4, "learning rate of the policy")
    vf_lr: float = setting(1e-3, "learning rate of the value function")
    train_pi_iters: int = setting(80, "passes over the rollout for the policy")
    train_v_iters: int = setting(80, "passes over the rollout for the value function")
    target_kl: float | None = setting(0.01, "stop policy steps at 1.5 times this KL; none: never")
    minibatch_size: int | None = setting(None, "rows of a minibatch; none: the whole rollout")
    ent_coef: float = setting(0.0, "weight of the entropy bonus")
    vf_clip: float | None = setting(None, "clip range of the values; none: no clipping", rare=True)
    max_grad_norm: float | None = setting(None, "largest gradient norm; none: no limit", rare=True)
    adam_eps: float = setting(1e-8, "epsilon of both Adam optimisers", rare=True)
    lr_decay_updates: int | None = setting(None, "updates until learning rates reach 0", rare=True)
    recompute_advantages: bool = setting(False, "recompute advantages before each pass", rare=True)
    normalise_obs: bool = setting(False, "normalise observations by running statistics")
    scale_rewards: bool = setting(False, "divide rewards by the running std of returns", rare=True)

    def __post_init__(self) -> None:
        """Check every field."""
        require_flat("ppo", self.env)
        nets.check_networks(self, optimized=("actor", "critic"))
        checks.each(self, ("gamma", "lam"), checks.real, 0.0, 1.0)
        checks.each(self, ("pi_lr", "vf_lr", "clip_ratio", "adam_eps"), checks.positive)
        checks.each(self, ("target_kl", "vf_clip", "max_grad_norm"), checks.positive, optional=True)
        checks.each(self, ("minibatch_size", "lr_decay_updates"), checks.integer, 1, optional=True)
        checks.real("ent_coef", self.ent_coef, 0.0)
        checks.member("value_target", self.value_target, ("mc", "lambda"))
        checks.each(self, ("train_pi_iters", "train_v_iters"), checks.integer, 0)
        checks.boolean("recompute_advantages", self.recompute_advantages)
        checks.each(self, ("normalise_obs", "scale_rewards"), checks.boolean)
        checks.hashable(self)


SCHEDULE = OnPolicySchedule()
NOISE_DRAWS = 0


@struct.dataclass
class Params:
    """All arrays that the losses read; statistics receive no gradient."""

    actor: Any
    critic: Any
    obs_stats: moments.Moments  # moments of each element of the observations
    ret_stats: moments.Moments  # moments of the discounted sums of rewards
    spec: Spec = struct.field(pytree_node=False)


@struct.dataclass
class State:
    """Everything that `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def networks(spec: Spec) -> nets.Networks:
    """Return the networks of a learner: the policy and the value function."""
    return nets.Networks(nets.policy_network(spec, spec.head_scale), nets.value_network(spec))


def optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    """Return the optimizer of each group of parameters; Adam lacks its rate, which may decay."""
    clip = optax.clip_by_global_norm(spec.max_grad_norm) if spec.max_grad_norm else optax.identity()
    adam = optax.scale_by_adam(eps=spec.adam_eps)
    rates = {"actor": spec.pi_lr, "critic": spec.vf_lr}
    return {k: optax.chain(clip, nets.find_custom(spec, k, lr) or adam) for k, lr in rates.items()}


def init(key: jax.Array, spec: Spec) -> State:
    """Initialise a learner with `key`; its statistics have no effect before the first update."""
    checks.key("key", key)
    checks.spec(spec, Spec)
    key_actor, key_critic = jax.random.split(key)
    actor, critic = networks(spec)
    obs = (jnp.zeros(spec.env.obs_shape),) if spec.normalise_obs else (spec.env.example().obs,)
    pi = nets.init_params("actor", actor, key_actor, obs, nets.policy_shape(spec.env))
    v = nets.init_params("critic", critic, key_critic, obs, ())
    tx = optimizers(spec)
    opt_state = {"actor": tx["actor"].init(pi), "critic": tx["critic"].init(v)}
    stats = moments.init_moments(spec.env.obs_shape), moments.init_moments(())
    return State(Params(pi, v, *stats, spec), opt_state, jnp.zeros((), jnp.int32))


@jax.jit
def act(params: Params, obs: Any, key: jax.Array) -> jax.Array:
    """Sample actions from the policy; actions in a Box may lie outside its bounds.

    Args:
        params: The learner's parameters.
        obs: Observations `[..., *obs_shape]`.
        key: PRNG key used for sampling.
    """
    checks.key("key", key)
    return policies.sample(checks.spec_of(params).env, distribution(params, obs), key)


@jax.jit
def policy(params: Params, obs: Any) -> jax.Array:
    """Return the most likely actions for `obs` `[..., *obs_shape]`."""
    return policies.mode(checks.spec_of(params).env, distribution(params, obs))


def distribution(params: Params, obs: Any) -> Any:
    """Return logits `[..., n]`, or mean and log std `[..., A]` in normalised units."""
    spec, obs = checks.spec_of(params), _normalise_obs(params, obs)
    return nets.apply_rows(networks(spec).actor, params.actor, obs, spec.env.obs_shape)


def value(params: Params, obs: Any) -> jax.Array:
    """Return the values `[...]` of observations `[..., *obs_shape]`."""
    spec, obs = checks.spec_of(params), _normalise_obs(params, obs)
    return nets.apply_rows(networks(spec).critic, params.critic, obs, spec.env.obs_shape)


def _normalise_obs(params: Params, obs: Any) -> Any:
    """Check observations, and normalise them if the setting is on."""
    params.spec.env.check_obs(obs)
    return moments.scale(obs, params.obs_stats) if params.spec.normalise_obs else obs


@jax.jit
def prepare(params: Params, rollout: Rollout) -> PolicyBatch:
    r"""Turn transitions `[T, N, ...]` into the rows that the losses need, `[T*N, ...]`.

    .. math::
        \delta_t = r_t + \gamma (1 - d_t) V(s_{t+1}) - V(s_t), \qquad
        \hat A_t = \sum_l (\gamma \lambda)^l \delta_{t+l}

    Advantages are standardised. Values and log-probabilities are those of `params`.
    """
    spec = checks.spec_of(params)
    spec.env.check_rollout(rollout)
    rew = rollout.rew
    if spec.scale_rewards:
        rew = moments.scale(rew, params.ret_stats, shift=False)
    val, next_val = value(params, jnp.stack([rollout.obs, rollout.next_obs]))  # [T, N]
    ends = (rollout.terminated, rollout.truncated)
    adv = returns.gae(rew, val, next_val, *ends, spec.gamma, spec.lam)
    ret = adv + val
    if spec.value_target == "mc":
        ret = returns.reward_to_go(rew, next_val, *ends, spec.gamma)
    weight = jnp.ones_like(adv)
    adv = moments.standardise(adv, weight)
    logp = policies.log_prob(spec.env, distribution(params, rollout.obs), rollout.act)
    batch = PolicyBatch(rollout.obs, rollout.act, adv, ret, logp, val, weight)
    return batch.flatten()._replace(rollout=rollout)


def actor_loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    r"""Return the clipped surrogate loss minus the entropy bonus.

    .. math::
        L = -\mathbb{E}\,[w \min(r \hat A, \mathrm{clip}(r, 1 - \epsilon, 1 + \epsilon) \hat A)]
            - c \, \mathbb{E}\,[w H(\pi_\theta)]

    Args:
        params: The learner's parameters.
        batch: obs `[B, *obs_shape]`, act, and adv, logp and weight `[B]`, from `prepare`.

    Returns:
        The loss, and `loss_pi`, `kl` (an estimate of KL(old || new)), `entropy`, `clip_frac`.
    """
    spec = checks.spec_of(params)
    spec.env.check_policy_batch(batch)
    dist = distribution(params, batch.obs)
    log_ratio = policies.log_prob(spec.env, dist, batch.act) - batch.logp  # [B]
    ratio = jnp.exp(log_ratio)
    clipped = ratio.clip(1.0 - spec.clip_ratio, 1.0 + spec.clip_ratio)
    surrogate = (batch.weight * jnp.minimum(ratio * batch.adv, clipped * batch.adv)).mean()
    entropy = (batch.weight * policies.entropy(spec.env, dist)).mean()
    loss_pi = -surrogate - spec.ent_coef * entropy
    return loss_pi, {
        "loss_pi": loss_pi,
        "kl": (batch.weight * (jnp.expm1(log_ratio) - log_ratio)).mean(),
        "entropy": entropy,
        "clip_frac": (batch.weight * (jnp.abs(ratio - 1.0) > spec.clip_ratio)).mean(),
    }


def critic_loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    r"""Return the squared error of the values; with `vf_clip`, the larger of two errors.

    .. math::
        L = \mathbb{E}\,[w \max((V_\phi(s) - \hat R)^2, (V_{clip}(s) - \hat R)^2)], \qquad
        V_{clip} = V_{old} + \mathrm{clip}(V_\phi - V_{old}, -c, c)

    Returns:
        The loss, and `loss_v`, `val` (mean value).
    """
    spec = checks.spec_of(params)
    spec.env.check_policy_batch(batch)
    v = value(params, batch.obs)  # [B]
    error = jnp.square(v - batch.ret)
    if spec.vf_clip is not None:
        near = batch.val + (v - batch.val).clip(-spec.vf_clip, spec.vf_clip)
        error = jnp.maximum(error, jnp.square(near - batch.ret))
    loss_v = (batch.weight * error).mean()
    return loss_v, {"loss_v": loss_v, "val": v.mean()}


def loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    """Return the sum of the actor and critic losses; their gradients do not overlap."""
    loss_pi, info_pi = actor_loss(params, batch)
    loss_v, info_v = critic_loss(params, batch)
    return loss_pi + loss_v, info_pi | info_v


@jax.jit
def update(state: State, batch: PolicyBatch) -> tuple[State, Metrics]:
    """Do `train_pi_iters` passes of the policy and `train_v_iters` of the value function.

    The passes alternate. Once the KL exceeds 1.5 `target_kl`, the policy takes no more steps in
    this update. Under `vmap` a skipped step costs as much as a real one.

    Args:
        state: The learner's state, which does not change.
        batch: Batch from `prepare`, with a key if there are minibatches.

    Returns:
        The new state, and the metrics of the losses before the update, with their changes
        `delta_loss_pi` and `delta_loss_v`. `kl` and `clip_frac` are those of the last policy
        tested, and `stop_iter` is the number of policy steps.
    """
    # Check that the batch has what the settings need.
    checks.state(state)
    old, spec = state.params, state.params.spec
    _check_batch(spec, batch)

    # Alternate passes of the policy and of the value function over the rollout.
    rate = _decay_rate(spec.lr_decay_updates, state.step)
    now = _run_passes(_Progress(old, state.opt_state, rate), batch)

    # Measure how the losses changed.
    before, after = loss(old, batch)[1], loss(now.params, batch)[1]
    changes = {f"delta_{name}": after[name] - before[name] for name in ("loss_pi", "loss_v")}
    info = before | changes | {"kl": now.kl, "clip_frac": now.clip_frac, "stop_iter": now.steps}

    # Add the rollout to the running statistics, which the passes have only read.
    params = _update_statistics(now.params, batch)
    return State(params, now.opt_state, state.step + 1), info


@struct.dataclass
class _Progress:
    """Everything that changes during an update."""

    params: Params
    opt_state: dict[str, optax.OptState]
    rate: jax.Array  # factor on both learning rates
    going: jax.Array = struct.field(default_factory=lambda: jnp.bool_(True))  # policy not stopped
    steps: jax.Array = struct.field(default_factory=lambda: jnp.float32(0.0))  # policy steps
    kl: jax.Array = struct.field(default_factory=lambda: jnp.float32(0.0))  # at the last test
    clip_frac: jax.Array = struct.field(default_factory=lambda: jnp.float32(0.0))  # same test


def _run_passes(start: _Progress, batch: PolicyBatch) -> _Progress:
    """Alternate passes of policy and value function until both are done."""
    spec, size = start.params.spec, start.params.spec.minibatch_size

    def find_due(i: jax.Array, now: _Progress) -> tuple[jax.Array, jax.Array]:
        return now.going & (i < spec.train_pi_iters), i < spec.train_v_iters

    def run_both(carry: tuple[jax.Array, _Progress]) -> tuple[jax.Array, _Progress]:
        i, now = carry
        actor_due, critic_due = find_due(i, now)
        rows = batch._replace(key=None, rollout=None)
        if spec.recompute_advantages:
            new = prepare(now.params, batch.rollout)
            rows = rows._replace(adv=new.adv, ret=new.ret)
        scan = functools.partial(minibatches.scan, rows=rows, size=size, key=batch.key)
        scan_actor = functools.partial(scan, _step_actor, number=2 * i)
        scan_critic = functools.partial(scan, _step_critic, number=2 * i + 1)
        now = jax.lax.cond(actor_due, scan_actor, lambda now: now, now)
        now = jax.lax.cond(critic_due, scan_critic, lambda now: now, now)
        return i + 1, now

    carry = jnp.int32(0), start
    return jax.lax.while_loop(lambda carry: jnp.logical_or(*find_due(*carry)), run_both, carry)[1]


def _step_actor(now: _Progress, rows: PolicyBatch) -> tuple[_Progress, None]:
    """Do one step of the policy, unless its KL exceeds the limit."""
    spec, going = now.params.spec, now.going
    grads, info = jax.grad(actor_loss, has_aux=True)(now.params, rows)
    kl, grad = mpi.pmean((info["kl"], grads.actor))
    if spec.target_kl is not None:
        going &= kl <= 1.5 * spec.target_kl
    moved = _apply_gradient(now, "actor", grad, spec.pi_lr)
    moved = dataclasses.replace(moved, steps=now.steps + 1.0)
    kl = jnp.where(now.going, kl, now.kl)
    clip_frac = jnp.where(now.going, info["clip_frac"], now.clip_frac)
    now = jax.tree.map(lambda new, old: jnp.where(going, new, old), moved, now)
    return dataclasses.replace(now, going=going, kl=kl, clip_frac=clip_frac), None


def _step_critic(now: _Progress, rows: PolicyBatch) -> tuple[_Progress, None]:
    """Do one step of the value function."""
    grads, _ = jax.grad(critic_loss, has_aux=True)(now.params, rows)
    return _apply_gradient(now, "critic", mpi.pmean(grads.critic), now.params.spec.vf_lr), None


def _apply_gradient(now: _Progress, name: str, grad: Any, lr: float) -> _Progress:
    """Move the network in field `name` of `Params` by one optimizer step."""
    spec, old = now.params.spec, getattr(now.params, name)
    step, opt = optimizers(spec)[name].update(grad, now.opt_state[name], old)
    factor = -lr * now.rate if nets.find_custom(spec, name, lr) is None else now.rate
    moved: Any = {name: optax.apply_updates(old, jax.tree.map(lambda s: factor * s, step))}
    params = dataclasses.replace(now.params, **moved)
    return dataclasses.replace(now, params=params, opt_state=now.opt_state | {name: opt})


def _decay_rate(decay: int | None, step: jax.Array) -> jax.Array:
    """Return the factor on the learning rates at update `step`: 1, or a linear decay to 0."""
    return jnp.float32(1.0) if decay is None else jnp.maximum(1.0 - step / decay, 0.0)


def _update_statistics(params: Params, batch: PolicyBatch) -> Params:
    """Update the running statistics with this rollout."""
    if params.spec.normalise_obs:
        obs = jnp.asarray(batch.obs, jnp.float32)
        params = dataclasses.replace(params, obs_stats=moments.merge(params.obs_stats, obs))
    if params.spec.scale_rewards:
        rew, ends = batch.rollout.rew, (batch.rollout.terminated, batch.rollout.truncated)
        sums = returns.forward_sum(rew, *ends, params.spec.gamma).reshape(-1)
        params = dataclasses.replace(params, ret_stats=moments.merge(params.ret_stats, sums))
    return params


def _check_batch(spec: Spec, batch: PolicyBatch) -> None:
    """Refuse a batch that lacks what the settings need."""
    spec.env.check_policy_batch(batch)
    minibatches.check(spec.minibatch_size, batch.adv.shape[0], batch.key)
    if (spec.recompute_advantages or spec.scale_rewards) and batch.rollout is None:
        raise ValueError(
            "recompute_advantages and scale_rewards need the transitions in batch.rollout, got "
            "None. Pass the whole batch from prepare: a part for one device has no rollout."
        )
