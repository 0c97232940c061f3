r"""PPO: many steps on one rollout, with a loss that gives nothing for leaving the old policy far.

.. math::
    r = \frac{\pi_\theta(a | s)}{\pi_{old}(a | s)}, \qquad
    L(\theta) = -\mathbb{E}\,[w \min(r \hat A, \mathrm{clip}(r, 1 - \epsilon, 1 + \epsilon) \hat A)]
        - c \, \mathbb{E}\,[w H(\pi_\theta)]

.. math::
    L(\phi) = \mathbb{E}\,[w \, (V_\phi(s) - \hat R)^2]

Reference: Schulman et al., 2017, https://arxiv.org/abs/1707.06347.

Where this differs from the paper: Spinning Up's numbers are the default, full-batch steps of policy
and value function, 80 each, and the policy's stop once it has moved further than 1.5 `target_kl`.
The divergence is estimated by the non-negative :math:`\mathbb{E}\,[r - 1 - \log r]`, averaged over
ranks and tested before each step. Advantages are standardised once per rollout, over the rows of
all ranks. Policy and value function share no parameters and have optimisers of their own, so there
is no weight between their losses, and each gradient is clipped by its own norm. The row weight w is
1 everywhere.

The options beyond Spinning Up are off by default: minibatches, entropy bonus, value and gradient
clipping, advantages recomputed at each pass, learning rates that fall to zero, normalised
observations, scaled rewards. The last two keep running statistics in `Params`: a rollout is read
with those of the rollouts before it, and `update` takes it in as its last step. With scaled rewards
values have their units, and the discounted sums that scale them start anew with each rollout.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, moments, mpi, nets, returns
from purerl.fields import setting
from purerl.nets import policies
from purerl.schedules import OnPolicySchedule
from purerl.spaces import EnvSpec, require_flat
from purerl.types import Metrics, PolicyBatch, Rollout


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a PPO learner: hashable and compared by value.

    `actor` and `critic` are Flax modules of your own, or None for an MLP:
    `actor(obs [B, *obs_shape])` -> logits `[B, n]`, or mean and log standard deviation `[B, A]`
    in units of [-1, 1], and `critic(obs [B, *obs_shape]) -> [B]`.
    """

    env: EnvSpec
    actor: Any = None
    critic: Any = None
    hidden: tuple[int, ...] = setting(
        (64, 64), "units of the hidden layers", flag="--hid", group="Network"
    )
    activation: str = setting("tanh", "of the hidden layers", flag="--act", group="Network")
    initializer: str = setting("torch_uniform", "of all layers", group="Network", rare=True)
    log_std_init: float = setting(
        -0.5, "first log std of Box actions, action range is [-1, 1]", group="Network", rare=True
    )
    head_scale: float = setting(
        1.0, "factor on the first kernel of the policy's last layer", group="Network", rare=True
    )
    gamma: float = setting(0.99, "discount factor")
    lam: float = setting(0.97, "of the advantage estimates: 0 trusts the values, 1 the rewards")
    value_target: str = setting(
        "mc", "mc: bootstrapped reward-to-go, lambda: advantage plus value", rare=True
    )
    clip_ratio: float = setting(0.2, "how far the probability ratio may leave 1 with profit")
    pi_lr: float = setting(3e-4, "learning rate of the policy")
    vf_lr: float = setting(1e-3, "learning rate of the value function")
    train_pi_iters: int = setting(80, "passes of the policy over the rollout")
    train_v_iters: int = setting(80, "passes of the value function over the rollout")
    target_kl: float | None = setting(
        0.01, "the policy stops beyond 1.5 times this; none: it never does"
    )
    minibatch_size: int | None = setting(
        None, "rows of a step, shuffled at each pass; none: all rows"
    )
    ent_coef: float = setting(0.0, "weight of the entropy in the policy's loss")
    vf_clip: float | None = setting(
        None, "bound of a value's change in its loss; none: no bound", rare=True
    )
    max_grad_norm: float | None = setting(
        None, "bound of each gradient's norm; none: no bound", rare=True
    )
    adam_eps: float = setting(1e-8, "of both optimisers", rare=True)
    lr_decay_updates: int | None = setting(
        None, "rollouts until both rates are zero; none: constant", rare=True
    )
    recompute_advantages: bool = setting(
        False, "with the current values, at the start of each pass", rare=True
    )
    normalise_obs: bool = setting(False, "by running mean and deviation, clipped at 10")
    scale_rewards: bool = setting(
        False, "by the running deviation of discounted returns, clipped at 10", rare=True
    )

    def __post_init__(self) -> None:
        """Check every field."""
        require_flat("ppo", self.env)
        nets.check_style(self)
        for name in ("gamma", "lam"):
            checks.real(name, getattr(self, name), 0.0, 1.0)
        checks.real("log_std_init", self.log_std_init, -20.0, 2.0)
        for name in ("pi_lr", "vf_lr", "clip_ratio", "head_scale", "adam_eps"):
            checks.positive(name, getattr(self, name))
        for name in ("target_kl", "vf_clip", "max_grad_norm"):
            if getattr(self, name) is not None:
                checks.positive(name, getattr(self, name))
        for name in ("minibatch_size", "lr_decay_updates"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), 1)
        checks.real("ent_coef", self.ent_coef, 0.0)
        checks.member("value_target", self.value_target, ("mc", "lambda"))
        for name in ("train_pi_iters", "train_v_iters"):
            checks.integer(name, getattr(self, name), 0)
        for name in ("recompute_advantages", "normalise_obs", "scale_rewards"):
            checks.boolean(name, getattr(self, name))
        nets.check_module("actor", self.actor, self.env)
        nets.check_module("critic", self.critic, self.env)
        checks.hashable(self)


SCHEDULE = OnPolicySchedule()
NOISE_DRAWS = 0


@struct.dataclass
class Params:
    """Every array the losses read; statistics receive no gradient."""

    actor: Any
    critic: Any
    obs_stats: moments.Moments  # of observations, per element
    ret_stats: moments.Moments  # of discounted sums of rewards
    spec: Spec = struct.field(pytree_node=False)


@struct.dataclass
class State:
    """What `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def _networks(spec: Spec) -> tuple[Any, Any]:
    critic = spec.critic or nets.ValueFunction(spec.hidden, spec.activation, spec.initializer)
    return nets.policy_network(spec, spec.head_scale), critic


def _optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    """Return the optimisers without their rates, which `update` lets fall."""
    clip = optax.clip_by_global_norm(spec.max_grad_norm) if spec.max_grad_norm else optax.identity()
    tx = optax.chain(clip, optax.scale_by_adam(eps=spec.adam_eps))
    return {"actor": tx, "critic": tx}


def init(key: jax.Array, spec: Spec) -> State:
    """Make a fresh learner; its statistics change nothing until the first update.

    Args:
        key: typed key of all initial parameters.
        spec: static settings.
    """
    checks.key("key", key)
    checks.spec(spec, Spec)
    key_actor, key_critic = jax.random.split(key)
    actor, critic = _networks(spec)
    obs = (jnp.zeros(spec.env.obs_shape),) if spec.normalise_obs else (spec.env.example().obs,)
    pi = nets.init_params("actor", actor, key_actor, obs, nets.policy_shape(spec.env))
    v = nets.init_params("critic", critic, key_critic, obs, ())
    tx = _optimizers(spec)
    opt_state = {"actor": tx["actor"].init(pi), "critic": tx["critic"].init(v)}
    stats = moments.init_moments(spec.env.obs_shape), moments.init_moments(())
    return State(Params(pi, v, *stats, spec), opt_state, jnp.zeros((), jnp.int32))


@jax.jit
def act(params: Params, obs: Any, key: jax.Array) -> jax.Array:
    """Return actions drawn from the policy; those of a Box may leave it.

    Args:
        params: of the learner.
        obs: `[..., *obs_shape]`.
        key: of the draw.
    """
    checks.key("key", key)
    return policies.sample(checks.spec_of(params).env, _dist(params, obs), key)


@jax.jit
def policy(params: Params, obs: Any) -> jax.Array:
    """Return the most likely actions for `obs` `[..., *obs_shape]`."""
    return policies.mode(checks.spec_of(params).env, _dist(params, obs))


def _dist(params: Params, obs: Any) -> Any:
    spec = params.spec
    spec.env.check_obs(obs)
    actor, _ = _networks(spec)
    return nets.apply_rows(actor, params.actor, _normalise_obs(params, obs), spec.env.obs_shape)


def _value(params: Params, obs: Any) -> jax.Array:
    _, critic = _networks(params.spec)
    obs_shape = params.spec.env.obs_shape
    return nets.apply_rows(critic, params.critic, _normalise_obs(params, obs), obs_shape)


def _normalise_obs(params: Params, obs: Any) -> Any:
    """Return observations as the networks see them."""
    return moments.scale(obs, params.obs_stats) if params.spec.normalise_obs else obs


@jax.jit
def prepare(params: Params, rollout: Rollout) -> PolicyBatch:
    r"""Turn transitions `[T, N, ...]` into what the losses need, `[T*N, ...]`.

    .. math::
        \delta_t = r_t + \gamma (1 - d_t) V(s_{t+1}) - V(s_t), \qquad
        \hat A_t = \sum_l (\gamma \lambda)^l \delta_{t+l}

    Advantages are standardised; values and log-probabilities are those of `params`.
    """
    spec = checks.spec_of(params)
    spec.env.check_rollout(rollout)
    adv, ret, val = _advantages(params, rollout)
    logp = policies.log_prob(spec.env, _dist(params, rollout.obs), rollout.act)
    weight = jnp.ones_like(adv)
    batch = PolicyBatch(rollout.obs, rollout.act, adv, ret, logp, val, weight)
    return batch.flatten()._replace(rollout=rollout)


def _advantages(params: Params, rollout: Rollout) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return standardised advantages, value targets and values `[T, N]`."""
    spec = params.spec
    rew = rollout.rew
    if spec.scale_rewards:
        rew = moments.scale(rew, params.ret_stats, shift=False)
    val, next_val = _value(params, jnp.stack([rollout.obs, rollout.next_obs]))  # [T, N]
    ends = (rollout.terminated, rollout.truncated)
    adv = returns.gae(rew, val, next_val, *ends, spec.gamma, spec.lam)
    ret = adv + val
    if spec.value_target == "mc":
        ret = returns.reward_to_go(rew, next_val, *ends, spec.gamma)
    return moments.standardise(adv, jnp.ones_like(adv)), ret, val


def actor_loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    r"""Clipped surrogate loss, less the entropy bonus.

    .. math::
        L = -\mathbb{E}\,[w \min(r \hat A, \mathrm{clip}(r, 1 - \epsilon, 1 + \epsilon) \hat A)]
            - c \, \mathbb{E}\,[w H(\pi_\theta)]

    Args:
        params: of the learner, with the static spec.
        batch: obs `[B, *obs_shape]`, act, adv `[B]`, logp `[B]` and weight `[B]`, as `prepare`
            gives them.

    Returns:
        The loss, and `loss_pi`, `kl` (an estimate of KL(old || new)), `entropy`, `clip_frac` (part
        of the ratios outside of the clip range).
    """
    spec = checks.spec_of(params)
    spec.env.check_policy_batch(batch)
    dist = _dist(params, batch.obs)
    log_ratio = policies.log_prob(spec.env, dist, batch.act) - batch.logp  # [B]
    ratio = jnp.exp(log_ratio)
    clipped = ratio.clip(1.0 - spec.clip_ratio, 1.0 + spec.clip_ratio)
    surrogate = (batch.weight * jnp.minimum(ratio * batch.adv, clipped * batch.adv)).mean()
    entropy = (batch.weight * policies.entropy(spec.env, dist)).mean()
    value = -surrogate - spec.ent_coef * entropy
    info = {
        "loss_pi": value,
        "kl": (batch.weight * (jnp.expm1(log_ratio) - log_ratio)).mean(),
        "entropy": entropy,
        "clip_frac": (batch.weight * (jnp.abs(ratio - 1.0) > spec.clip_ratio)).mean(),
    }
    return value, info


def critic_loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    r"""Squared error of the values.

    .. math::
        L = \mathbb{E}\,[w \max((V_\phi(s) - \hat R)^2, (V_{clip}(s) - \hat R)^2)], \qquad
        V_{clip} = V_{old} + \mathrm{clip}(V_\phi - V_{old}, -c, c);

    without `vf_clip` the maximum is that of its first argument alone.

    Returns:
        The loss, and `loss_v`, `val` (mean of the values).
    """
    spec = checks.spec_of(params)
    spec.env.check_policy_batch(batch)
    v = _value(params, batch.obs)  # [B]
    error = jnp.square(v - batch.ret)
    if spec.vf_clip is not None:
        near = batch.val + (v - batch.val).clip(-spec.vf_clip, spec.vf_clip)
        error = jnp.maximum(error, jnp.square(near - batch.ret))
    value = (batch.weight * error).mean()
    return value, {"loss_v": value, "val": v.mean()}


def loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    """Return the sum of the actor and critic losses; their gradients do not overlap."""
    value_pi, info_pi = actor_loss(params, batch)
    value_v, info_v = critic_loss(params, batch)
    return value_pi + value_v, info_pi | info_v


@jax.jit
def update(state: State, batch: PolicyBatch) -> tuple[State, Metrics]:
    """Do `train_pi_iters` passes of the policy and `train_v_iters` of the value function.

    The two take turns, pass by pass. The policy stops for good before the first step at which it
    has moved too far; the value function goes on. Under `vmap` a stopped policy costs as much as
    one that moves.

    Args:
        state: of the learner; unchanged and still usable afterwards.
        batch: as `prepare` gives it; with a key for minibatches.

    Returns:
        The new state; the metrics of the losses before it, except `kl` and `clip_frac`, which are
        those of the last policy tested; the changes `delta_loss_pi` and `delta_loss_v`; and
        `stop_iter`, the steps of the policy.
    """
    checks.state(state)
    old, spec = state.params, state.params.spec
    _check_options(spec, batch)

    def unfinished(carry: tuple[jax.Array, _Progress]) -> jax.Array:
        i, now = carry
        return (i < spec.train_v_iters) | (now.going & (i < spec.train_pi_iters))

    def one_pass(carry: tuple[jax.Array, _Progress]) -> tuple[jax.Array, _Progress]:
        i, now = carry
        rows = _recompute_rows(now.params, batch)
        now = jax.lax.cond(
            now.going & (i < spec.train_pi_iters),
            lambda now: _scan_minibatches(_step_actor, now, rows, _key(batch, 2 * i)),
            lambda now: now,
            now,
        )
        now = jax.lax.cond(
            i < spec.train_v_iters,
            lambda now: _scan_minibatches(_step_critic, now, rows, _key(batch, 2 * i + 1)),
            lambda now: now,
            now,
        )
        return i + 1, now

    now = _Progress(old, state.opt_state, _decay_rate(spec, state.step))
    _, now = jax.lax.while_loop(unfinished, one_pass, (jnp.int32(0), now))
    before, after = loss(old, batch)[1], loss(now.params, batch)[1]
    changes = {f"delta_{name}": after[name] - before[name] for name in ("loss_pi", "loss_v")}
    info = before | changes | {"kl": now.kl, "clip_frac": now.clip_frac, "stop_iter": now.steps}
    return State(_update_statistics(now.params, batch), now.opt_state, state.step + 1), info


@struct.dataclass
class _Progress:
    """Where an update stands."""

    params: Params
    opt_state: dict[str, optax.OptState]
    rate: jax.Array  # factor on both learning rates
    going: jax.Array = struct.field(default_factory=lambda: jnp.bool_(True))  # the policy moves on
    steps: jax.Array = struct.field(default_factory=lambda: jnp.float32(0.0))  # it has done
    kl: jax.Array = struct.field(default_factory=lambda: jnp.float32(0.0))  # when last tested
    clip_frac: jax.Array = struct.field(default_factory=lambda: jnp.float32(0.0))  # the same


def _step_actor(now: _Progress, rows: PolicyBatch) -> tuple[_Progress, None]:
    """Do one step of the policy, or none if it has moved too far by now."""
    spec = now.params.spec
    grads, info = jax.grad(actor_loss, has_aux=True)(now.params, rows)
    kl, grad = mpi.pmean((info["kl"], grads.actor))
    clip_frac, going = info["clip_frac"], now.going
    if spec.target_kl is not None:
        going &= kl <= 1.5 * spec.target_kl
    tx = _optimizers(spec)["actor"]
    step, opt = tx.update(grad, now.opt_state["actor"])
    step = jax.tree.map(lambda s: -spec.pi_lr * now.rate * s, step)
    actor = optax.apply_updates(now.params.actor, step)
    params, opt_state = dataclasses.replace(now.params, actor=actor), now.opt_state | {"actor": opt}
    moved = dataclasses.replace(now, params=params, opt_state=opt_state, steps=now.steps + 1.0)
    kl, clip_frac = jnp.where(now.going, kl, now.kl), jnp.where(now.going, clip_frac, now.clip_frac)
    now = jax.tree.map(lambda new, old: jnp.where(going, new, old), moved, now)
    return dataclasses.replace(now, going=going, kl=kl, clip_frac=clip_frac), None


def _step_critic(now: _Progress, rows: PolicyBatch) -> tuple[_Progress, None]:
    """Do one step of the value function."""
    spec = now.params.spec
    grads = jax.grad(critic_loss, has_aux=True)(now.params, rows)[0]
    tx = _optimizers(spec)["critic"]
    step, opt = tx.update(mpi.pmean(grads.critic), now.opt_state["critic"])
    step = jax.tree.map(lambda s: -spec.vf_lr * now.rate * s, step)
    critic = optax.apply_updates(now.params.critic, step)
    params = dataclasses.replace(now.params, critic=critic)
    return dataclasses.replace(now, params=params, opt_state=now.opt_state | {"critic": opt}), None


def _scan_minibatches(step: Any, now: _Progress, rows: PolicyBatch, key: Any) -> _Progress:
    """Do a step on all rows, or one on each minibatch of the rows in a new order."""
    size = now.params.spec.minibatch_size
    if size is None:
        return step(now, rows)[0]
    order = jax.random.permutation(key, rows.adv.shape[0]).reshape(-1, size)
    return jax.lax.scan(step, now, jax.tree.map(lambda x: jnp.asarray(x)[order], rows))[0]


def _recompute_rows(params: Params, batch: PolicyBatch) -> PolicyBatch:
    """Return the rows of a pass, with advantages and targets anew if asked for."""
    if params.spec.recompute_advantages:
        adv, ret, _ = _advantages(params, batch.rollout)
        batch = batch._replace(adv=adv.reshape(-1), ret=ret.reshape(-1))
    return batch._replace(key=None, rollout=None)


def _key(batch: PolicyBatch, number: jax.Array) -> Any:
    return None if batch.key is None else jax.random.fold_in(batch.key, number)


def _decay_rate(spec: Spec, step: jax.Array) -> jax.Array:
    """Return the factor on the learning rates at update number `step`: 1, or falling to zero."""
    if spec.lr_decay_updates is None:
        return jnp.float32(1.0)
    return jnp.maximum(1.0 - step / spec.lr_decay_updates, 0.0)


def _update_statistics(params: Params, batch: PolicyBatch) -> Params:
    """Take the rollout into the running statistics."""
    spec = params.spec
    if spec.normalise_obs:
        obs = jnp.asarray(batch.obs, jnp.float32)
        params = dataclasses.replace(params, obs_stats=moments.merge(params.obs_stats, obs))
    if spec.scale_rewards:
        rollout = batch.rollout
        ends = (rollout.terminated, rollout.truncated)
        sums = returns.forward_sum(rollout.rew, *ends, spec.gamma).reshape(-1)
        params = dataclasses.replace(params, ret_stats=moments.merge(params.ret_stats, sums))
    return params


def _check_options(spec: Spec, batch: PolicyBatch) -> None:
    """Refuse a batch that lacks what the options need."""
    spec.env.check_policy_batch(batch)
    rows, size = batch.adv.shape[0], spec.minibatch_size
    if size is not None:
        if rows % size:
            raise ValueError(
                f"minibatch_size must divide the {rows} rows of a rollout, got {size}. Change it "
                f"or steps_per_epoch."
            )
        if batch.key is None:
            raise ValueError(
                "minibatches are shuffled with batch.key, got None. By hand: "
                "prepare(params, rollout)._replace(key=jax.random.key(0))."
            )
        checks.key("batch.key", batch.key)
    if (spec.recompute_advantages or spec.scale_rewards) and batch.rollout is None:
        raise ValueError(
            "recompute_advantages and scale_rewards need the transitions in batch.rollout, where "
            "prepare puts them, got None. A batch split over devices has rows alone."
        )
