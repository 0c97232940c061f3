"""Comparisons that explain a wrong number, and the run of the checks of an exercise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import WrongAnswer
from purerl_school import exercises
from purerl_school.exercises import checking

ROWS = np.array([1.0, -2.0, 4.0])


@pytest.mark.parametrize(
    ("got", "shape", "message"),
    [
        (None, (3,), "returned None for the value. Is the return missing?"),
        ((1.0, 2.0), (3,), "must be an array of shape (3,), got a tuple"),
        (jnp.zeros(()), (3,), "must have shape (3,), got (). Each row needs a number of its own"),
        (jnp.zeros((3, 1)), (3,), "A last axis of size 1 is left"),
        (jnp.zeros((3, 3)), (3,), "They broadcast to [N, N]"),
        (jnp.zeros((3, 2)), (3,), "The last axis must be summed"),
        (jnp.zeros(3), (), "Is the mean over the rows missing?"),
        (jnp.zeros(4), (3,), "must have shape (3,), got (4,)."),
    ],
)
def test_wrong_shapes_are_explained(got, shape, message):
    with pytest.raises(WrongAnswer) as caught:
        checking.expect_shape(got, shape, "value")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("got", "message"),
    [
        (-ROWS, "The value is [-1, 2, -4], expected [1, -2, 4]. The sign is wrong"),
        (ROWS / 3, "differ by exactly the factor 1/3."),
        (ROWS * 2, "differ by exactly the factor 2."),
        (ROWS + 0.5, "differ by the same amount, 0.5."),
        (ROWS * 0, "All numbers are 0."),
        (ROWS * np.nan, "Some numbers are not finite"),
        (ROWS**2, "the square was taken"),
        (ROWS[::-1], "the last hint"),
        (np.abs(ROWS)[:, None] * np.ones(3), "has shape (3, 3), not (3,). each row was repeated"),
    ],
)
def test_wrong_numbers_are_explained(got, message):
    mistakes = {
        "never: not finite": ROWS * np.inf,
        "the square was taken": ROWS**2,
        "each row was repeated": np.abs(ROWS)[:, None] * np.ones(3),
    }
    with pytest.raises(WrongAnswer) as caught:
        checking.expect_close(jnp.asarray(got), ROWS, "value", "the last hint", mistakes)
    assert message in str(caught.value)


def test_right_numbers_pass_within_the_precision_of_float32():
    checking.expect_close(jnp.float32(ROWS) * (1 + 1e-6), ROWS, "value")
    checking.expect_close(0.5, 0.5, "value")
    with pytest.raises(WrongAnswer, match=r"is 0.501, expected 0.5"):
        checking.expect_close(0.501, 0.5, "value")


def test_gradients_are_compared_with_differences():
    x = np.array([[1.0, 2.0], [3.0, -1.0]])
    checking.expect_gradient(lambda x: (x**3).sum(), lambda x: (x**3).sum(), x, "gradient")
    with pytest.raises(WrongAnswer, match="The gradient is .*0"):
        checking.expect_gradient(
            lambda x: jax.lax.stop_gradient(x**3).sum(), lambda x: (x**3).sum(), x, "gradient"
        )


def test_a_gradient_that_must_be_0_is_explained():
    checking.expect_no_gradient(jnp.zeros(3), "logp", "Stop it.")
    with pytest.raises(WrongAnswer, match=r"gradient in logp is \[1, -2, 4\], .* 0. Stop it."):
        checking.expect_no_gradient(jnp.asarray(ROWS), "logp", "Stop it.")


def test_a_result_that_changes_inside_jit_is_found():
    checking.expect_jit(lambda x: x + 1.0, ROWS)
    with pytest.raises(WrongAnswer, match="result inside jit"):
        checking.expect_jit(lambda x: x + isinstance(x, jax.core.Tracer), ROWS)


def test_arrays_become_float32_and_flags_stay():
    tree = checking.to_jax({"x": ROWS, "flag": np.array([True]), "gamma": 0.5})
    assert tree["x"].dtype == jnp.float32
    assert tree["flag"].dtype == bool
    assert tree["gamma"] == 0.5


def numpy_inside(x, mean, log_std):
    return jnp.asarray(np.asarray(x).sum(axis=1)) * 0.0 - 0.9189385 * len(x[0])


def raises(x, mean, log_std):
    return {}["missing"]


def broadcasts(x, mean, log_std):
    z = (x - mean) / jnp.exp(log_std)
    return -0.5 * (z**2).sum(axis=1, keepdims=True) + log_std.sum(axis=-1)


@pytest.mark.parametrize(
    ("answer", "case", "message"),
    [
        (raises, 0, "Your function raised KeyError: 'missing' (line "),
        (numpy_inside, -1, "Use jnp in place of np"),
        (broadcasts, 0, "Shapes [N, 1] and [N] were combined"),
    ],
)
def test_errors_of_an_answer_are_messages(answer, case, message):
    outcomes = list(checking.run_checks(exercises.find("1.1"), answer))
    assert message in outcomes[case].message
    assert not outcomes[case].passed


def test_a_file_that_cannot_be_loaded_fails_every_check(tmp_path):
    path = tmp_path / "exercise_1_1.py"
    path.write_text("x = 1")
    outcomes = list(checking.run_checks(exercises.find("1.1"), path))
    assert {one.message for one in outcomes} == {
        f"{path} has no function log_prob. Keep the name of the start file."
    }
