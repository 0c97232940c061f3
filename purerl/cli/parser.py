"""The parser of commands whose flags are no settings of a run."""

import argparse
import itertools
import re
import sys
from typing import Any


class Parser(argparse.ArgumentParser):
    """Of a command: a flag is never matched by its beginning, an unknown one names the nearest.

    Args:
        name: of the command.
        description: what it does, in a sentence.
        examples: shown below the help as they are.
    """

    def __init__(self, name: str, description: str, examples: str = "") -> None:
        super().__init__(
            prog=f"purerl {name}",
            description=description,
            epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words; flags that are not known come before all other mistakes."""
        args = sys.argv[1:] if args is None else args
        words = itertools.takewhile(lambda word: word != "--", args)
        flags = [word.partition("=")[0] for word in words if re.match(r"--\S+$", word)]
        self._refuse([flag for flag in flags if flag not in self._option_string_actions])
        found, extra = self.parse_known_args(args, namespace)
        self._refuse([word for word in extra if word.startswith("-")])
        if extra:
            self.error(f"one word too many, {extra[0]!r}")
        return found

    def _refuse(self, flags: list[str]) -> None:
        """Refuse flags, if there are any."""
        if not flags:
            return
        from purerl.runs.settings import names

        known = {flag.lstrip("-").replace("-", "_"): flag for flag in self._option_string_actions}
        wrong = []
        for flag in flags:
            near = names.suggest(flag.lstrip("-").replace("-", "_"), known, lambda one: known[one])
            wrong.append(f"unknown flag {flag}.{near or f' {self.prog} --help lists all.'}")
        self.error("\n".join(wrong))
