"""Mutants of the networks for images."""

from tests.mutants import Mutant

CNN, MODULES, POLICIES = (
    "purerl/nets/cnn.py",
    "purerl/nets/modules.py",
    "purerl/nets/policies.py",
)
CONFIG, T_CONFIG = "purerl/runs/settings/config.py", "tests/runs/settings/test_config.py"
T_CNN = "tests/nets/test_cnn.py"
T_TORSO = "tests/contract/test_networks.py -k torso"
STYLE = "(spec.hidden, spec.activation, spec.initializer, spec.torso)"

MUTANTS = [
    Mutant(CNN, "x = x / 255.0", "x = x / 1.0", T_CNN),
    Mutant(CNN, "obs = obs.transpose(0, 2, 3, 1)", "obs = obs.transpose(0, 3, 2, 1)", T_CNN),
    Mutant(CNN, "(64, 4, 2), (64, 3, 1)", "(64, 4, 2), (64, 3, 2)", T_CNN),
    Mutant(
        CNN,
        "make_initializers(self.initializer, side**2 * x.shape[-1])",
        "make_initializers(self.initializer, x.shape[-1])",
        T_CNN,
    ),
    Mutant(CNN, "turned = kernel[::-1, ::-1]", "turned = kernel", T_CNN),
    Mutant(CNN, "side - 1 + rest)", "side - 1)", T_CNN),
    Mutant(
        CNN,
        "grad.transpose(1, 2, 0, 3), rhs_dilation=",
        "grad.transpose(1, 2, 0, 3), strides=",
        T_CNN,
    ),
    Mutant(
        MODULES, "reshape(-1, *x.shape[2:])[:number]", "reshape(-1, *x.shape[2:])[-number:]", T_CNN
    ),
    Mutant(MODULES, "if torso and large else", "if large else", T_CNN),
    Mutant(
        "purerl/spaces.py",
        "shape[1:] if len(shape) == 3 and has_channels_first(shape) else shape[:2]",
        "shape[:2]",
        T_CNN,
    ),
    Mutant(POLICIES, "*style, torso=spec.torso)", "*style)", T_TORSO),
    Mutant(
        POLICIES, "*style, spec.log_std_init, spec.torso)", "*style, spec.log_std_init)", T_TORSO
    ),
    *(
        Mutant(f"purerl/algos/{algo}.py", STYLE, STYLE.replace(", spec.torso", ""), T_TORSO)
        for algo in ("ddpg", "dqn", "sac", "td3")
    ),
    Mutant(
        "purerl/loops/offpolicy.py",
        "algo.update(x, own(key))",
        "algo.update(x, own(keys[0]))",
        "tests/loops/test_offpolicy.py -k large",
    ),
    Mutant(CONFIG, 'chosen = {"torso", "actor", "critic"}', 'chosen = {"torso"}', T_CONFIG),
    Mutant(CONFIG, "(MIN_SIDE, MIN_SIDE, 1) if image else", "(1,) if image else", T_CONFIG),
    Mutant(
        "purerl/runs/sweeps/tasks.py",
        'own = {"torso": other.get("torso") or spec.get("torso")}',
        "own = {}",
        "tests/runs/sweeps/test_tasks.py",
    ),
]
