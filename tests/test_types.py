"""Data types: the order of their fields, and the reshaping of a rollout into rows."""

import subprocess
import sys

import chex
import numpy as np

from purerl.types import Batch, PolicyBatch, Rollout, Transition


def test_types_spaces_and_schedules_do_not_import_jax():
    program = (
        "import sys, purerl.types, purerl.spaces, purerl.schedules; "
        "sys.exit(any(name.partition('.')[0] == 'jax' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_a_batch_and_a_rollout_begin_with_the_fields_of_a_transition():
    assert Rollout._fields == Transition._fields
    assert Batch._fields == (*Transition._fields, "key", "noise")
    assert Batch(*range(6))[6:] == (None, None)


def test_flatten_puts_the_environments_of_each_step_next_to_each_other():
    steps = np.arange(6.0).reshape(3, 2)
    obs = np.stack([steps, -steps], axis=-1)
    batch = PolicyBatch(obs, *[steps] * 6, key="key", rollout="rollout").flatten()
    chex.assert_shape(batch.obs, (6, 2))
    chex.assert_shape(batch[1:7], (6,))
    assert batch.adv.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert batch.obs[3].tolist() == [3.0, -3.0]
    assert (batch.key, batch.rollout) == (None, None)
