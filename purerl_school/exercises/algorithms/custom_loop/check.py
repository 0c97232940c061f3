"""Checks of exercise 3.7: an environment that follows a script, and a learner that notes its calls.

The state of the environment is (episode, step), and its observation is 100 * episode + step. An
episode ends as `SCRIPT` says. A learner is a tuple with an entry (number, stored rows) per update.
"""

from collections.abc import Callable
from typing import Any

from purerl.types import Transition
from purerl_school.exercises.algorithms.custom_loop.parts import Carry, Parts
from purerl_school.exercises.checking import Mistakes, reject

Answer = Callable[..., Any]
# T for terminated, L for a time limit, B for both, - for neither.
SCRIPT = {1: "--T", 2: "-L", 3: "-B", 4: "---------"}
NEVER = 1_000


def check_one_step(answer: Answer) -> None:
    """One step inside of an episode."""
    carry = _run(answer, _make_parts(), _make_carry(4, steps=7), 1)
    _expect(carry.steps, 8, "carry.steps", {"The step was not counted.": 7})
    _expect(len(carry.buffer), 1, "number of stored transitions")
    row = carry.buffer[0]
    _expect(row.obs, 400, "obs of the transition", {"This is the observation after the step.": 401})
    mistakes: Mistakes = {
        "The number of the action must be the steps done before.": ("act", (), 400, 8),
        "The action is random, but all random steps are over.": ("random", 7),
        "This number of updates is no number of steps. Use carry.steps.": ("act", (), 400, 0),
    }
    _expect(row.act, ("act", (), 400, 7), "action of the transition", mistakes)
    _expect(row.rew, 401.5, "reward of the transition")
    mistakes = {"This is the observation before the step.": 400}
    _expect(row.next_obs, 401, "next_obs of the transition", mistakes)
    mistakes = {
        "The episode was reset, but it goes on.": 500,
        "This is the observation before the step. The next action is for the new one.": 400,
    }
    _expect(carry.obs, 401, "carry.obs", mistakes)
    _expect(carry.env_state, (4, 1), "carry.env_state", {"The old state was kept.": (4, 0)})
    _expect(carry.learner, (), "carry.learner")


def check_pure(answer: Answer) -> None:
    """The same carry twice, which must give the same result."""
    first, second = (_run(answer, _make_parts(), _make_carry(4), 1) for _ in range(2))
    if tuple(first) != tuple(second):
        reject(
            "Two calls with the same carry gave different results. Is something kept outside of "
            "the carry, such as a list or a counter?"
        )


def check_random_actions(answer: Answer) -> None:
    """Random actions in the first steps only."""
    carry = _run(answer, _make_parts(start_steps=2), _make_carry(4), 4)
    kinds = [row.act[0] for row in carry.buffer]
    mistakes: Mistakes = {
        "One random step too many. Compare with the steps done before: steps < start_steps.": (
            ["random"] * 3 + ["act"]
        ),
        "One random step too few. Compare with the steps done before this one.": (
            ["random"] + ["act"] * 3
        ),
        "The first actions must be random.": ["act"] * 4,
    }
    _expect(kinds, ["random"] * 2 + ["act"] * 2, "kinds of the first actions", mistakes)
    numbers = [row.act[-1] for row in carry.buffer]
    mistakes = {"The number given to random_act is the steps done before.": [1, 2, 2, 3]}
    _expect(numbers, [0, 1, 2, 3], "numbers given to random_act and act", mistakes)


def check_terminal_state(answer: Answer) -> None:
    """An episode that ends in a terminal state."""
    carry = _run(answer, _make_parts(), _make_carry(1), 3)
    _expect_end(carry, True, False, 103, 200)
    carry = _run(answer, _make_parts(), carry, 1)
    _expect(carry.buffer[-1].obs, 200, "first obs of the next episode")


def check_time_limit(answer: Answer) -> None:
    """An episode that is cut by the time limit."""
    carry = _run(answer, _make_parts(), _make_carry(2), 2)
    _expect_end(carry, False, True, 202, 300)
    _run(answer, _make_parts(), carry, 1)


def check_both_flags(answer: Answer) -> None:
    """A step that is terminated and truncated at once."""
    _expect_end(_run(answer, _make_parts(), _make_carry(3), 2), True, True, 302, 400)


def check_first_burst(answer: Answer) -> None:
    """The first updates, with update_after=4 and update_every=2."""
    parts = _make_parts(update_after=4, update_every=2)
    carry = _run(answer, parts, _make_carry(4), 3)
    mistakes: Mistakes = {
        "The first burst came too early: update_after was not asked.": ((0, 2), (1, 2)),
        "The first burst came one step too early.": ((0, 3), (1, 3)),
    }
    _expect(carry.learner, (), "learner after 3 steps", mistakes)
    carry = _run(answer, parts, carry, 1)
    mistakes = {
        "No update was made. The burst is due after step 4: count the step first, and compare with "
        ">=.": (),
        "A burst has update_every updates.": ((0, 4),),
        "The updates saw 3 rows. Store the transition first, and pass the new buffer.": (
            ((0, 3), (1, 3))
        ),
        "A burst has update_every updates, not update_after.": tuple((n, 4) for n in range(4)),
        "Both updates have the same number, so they sample the same batch.": ((0, 4), (0, 4)),
        "The numbers begin with 1. Give the number of updates done before.": ((1, 4), (2, 4)),
        "The second update did not get the learner of the first one.": ((1, 4),),
    }
    _expect_log(carry, ((0, 4), (1, 4)), "4 steps", mistakes)


def check_later_bursts(answer: Answer) -> None:
    """The updates of eight steps, with update_after=4 and update_every=2."""
    carry = _run(answer, _make_parts(update_after=4, update_every=2), _make_carry(4), 8)
    right = tuple((n, 4 + n // 2 * 2) for n in range(6))
    mistakes: Mistakes = {
        "Each burst begins with number 0 again. Count in carry.updates.": (
            tuple((n % 2, rows) for n, rows in right)
        ),
        "After the first burst, updates were made at every step, not every update_every steps.": (
            tuple((n, 4 + n // 2) for n in range(10))
        ),
        "Only one burst was made.": right[:2],
        "carry.learner did not keep the updates of earlier bursts.": right[4:],
    }
    _expect_log(carry, right, "8 steps", mistakes)


def check_odd_start(answer: Answer) -> None:
    """The first updates, with update_after=3 and update_every=2."""
    carry = _run(answer, _make_parts(update_after=3, update_every=2), _make_carry(4), 5)
    mistakes: Mistakes = {
        "The first burst came after step 3, which is not a multiple of update_every.": (
            ((0, 3), (1, 3), (2, 5), (3, 5))
        ),
    }
    _expect_log(carry, ((0, 4), (1, 4)), "5 steps", mistakes)


def _make_parts(
    start_steps: int = 0, update_after: int = NEVER, update_every: int = NEVER
) -> Parts:
    """Return the scripted environment and learner, with these times."""

    def act(learner: Any, obs: Any, steps: Any) -> Any:
        return "act", learner, obs, steps

    def random_act(steps: Any) -> Any:
        return "random", steps

    def env_reset(env_state: Any) -> Any:
        return (env_state[0] + 1, 0), 100 * (env_state[0] + 1)

    def env_step(env_state: Any, act: Any) -> Any:
        episode, step = env_state
        end, obs = SCRIPT[episode][step], 100 * episode + step + 1
        return (episode, step + 1), obs, obs + 0.5, end in "TB", end in "LB"

    def add(buffer: Any, transition: Any) -> Any:
        if not isinstance(transition, Transition):
            reject(f"add needs a buffer and a purerl.types.Transition, got {transition!r:.80}.")
        return (*buffer, transition)

    def update(learner: Any, buffer: Any, updates: Any) -> Any:
        return (*learner, (updates, len(buffer)))

    times = (start_steps, update_after, update_every)
    return Parts(act, random_act, env_reset, env_step, add, update, *times)


def _make_carry(episode: int, steps: int = 0) -> Carry:
    """Return a carry at the start of an episode."""
    return Carry((), (), (episode, 0), 100 * episode, steps, 0)


def _run(answer: Answer, parts: Parts, carry: Any, steps: int) -> Any:
    """Call the answer several times, and check that it returns carries."""
    for _ in range(steps):
        carry = answer(parts, carry)
        lacks = [name for name in Carry._fields if not hasattr(carry, name)]
        if lacks:
            reject(f"Return a Carry. The result has no field {lacks[0]}: {carry!r:.80}")
    return carry


def _expect_end(carry: Any, terminated: bool, truncated: bool, last: int, first: int) -> None:
    """Check the last transition of an episode, and the observation of the next one."""
    row = carry.buffer[-1]
    mistakes: Mistakes = {
        "The next episode begins with this observation. Store the transition before the reset.": (
            first
        ),
    }
    _expect(row.next_obs, last, "next_obs of the last transition", mistakes)
    mistakes = {
        "A time limit is stored as a terminal state. Store both flags as they are.": (True, False),
        "Both flags have the same value. Store them as they are.": (True, True),
        "The flags are swapped.": (truncated, terminated),
        "The flags are lost.": (False, False),
    }
    flags = (bool(row.terminated), bool(row.truncated))
    _expect(flags, (terminated, truncated), "flags (terminated, truncated)", mistakes)
    mistakes = {
        "The episode has ended. Reset the environment, and keep the observation that it returns.": (
            last
        ),
        "The environment was reset twice.": first + 100,
    }
    _expect(carry.obs, first, "carry.obs after the end of an episode", mistakes)
    mistakes = {"Keep the state that env_reset returns.": (first // 100 - 1, last % 100)}
    _expect(carry.env_state, (first // 100, 0), "carry.env_state after the end", mistakes)


def _expect_log(carry: Any, right: Any, when: str, mistakes: Mistakes) -> None:
    """Check the updates of a learner, and their number in the carry."""
    _expect(carry.learner, right, f"list of updates (number, stored rows) after {when}", mistakes)
    mistakes = {"The updates were not counted.": 0}
    _expect(carry.updates, len(right), f"carry.updates after {when}", mistakes)


def _expect(got: Any, right: Any, what: str, mistakes: Mistakes | None = None) -> None:
    """Fail unless two values are equal; explain a wrong value that is known."""
    if got != right:
        why = next((text for text, wrong in (mistakes or {}).items() if got == wrong), "")
        reject(f"The {what} is {got!r}, expected {right!r}. {why}".rstrip())
