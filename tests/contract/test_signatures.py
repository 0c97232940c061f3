"""Names, arguments and length of the modules."""

import ast
import inspect

from purerl import algos
from purerl.schedules import OffPolicySchedule, OnPolicySchedule


def test_names_are_defined_in_the_order_of_the_contract(case):
    order = ["Spec", "SCHEDULE", "NOISE_DRAWS", "Params", "State", "init", "act", "policy"]
    order += ["prepare"] if hasattr(case.algo, "prepare") else []
    order += [*case.parts, "loss", "update"]
    tree = ast.parse(inspect.getsource(case.algo))
    found = [
        node.targets[0].id if isinstance(node, ast.Assign) else node.name
        for node in tree.body
        if isinstance(node, ast.Assign | ast.ClassDef | ast.FunctionDef)
    ]
    assert [name for name in found if name in order] == order
    assert case.algo.__name__.removeprefix("purerl.algos.") in algos.NAMES
    assert isinstance(case.algo.SCHEDULE, OffPolicySchedule | OnPolicySchedule)


def test_arguments_have_the_names_of_the_contract(case):
    wanted = {"init": ["key", "spec"], "act": ["params", "obs", "key"]}
    wanted |= {"policy": ["params", "obs"], "update": ["state", "batch"]}
    wanted |= {name: ["params", "batch"] for name in (*case.parts, "loss")}
    for name, arguments in wanted.items():
        assert list(inspect.signature(getattr(case.algo, name)).parameters) == arguments, name


def test_files_are_flat_and_short(case):
    source = inspect.getsource(case.algo)
    assert len(source.splitlines()) <= (450 if case.algo is algos.load("ppo") else 360)
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)]
    for node in functions:
        body = node.body[1:] if ast.get_docstring(node) else node.body
        assert node.end_lineno - body[0].lineno <= 40, node.name
