"""`jumar simulate`: one scenario file in, the verdict out."""

from __future__ import annotations

from typing import Any

import attrs

from jumar.reducers.errors import JumarError, PolicyError
from jumar.tools.harness.judge import difference
from jumar.tools.harness.scenario import expected_error, parse, read
from jumar.tools.harness.shapes import UsageError
from jumar.tools.harness.simulate import Simulation


@attrs.frozen
class Verdict:
    """
    What a scenario came to.

    Attributes:
        exit: 0 all that `expect` names holds, 1 it differs, 2 an unexpected error.
        final: the whole final state; empty after an error.
        differs: key -> (expected, found).
        error: the error, expected or not.
    """

    exit: int
    final: dict[str, Any]
    differs: dict[str, tuple[Any, Any]]
    error: JumarError | None = None

    def plain(self) -> dict[str, Any]:
        """The `--json` form: the whole final state in the words of `expect`."""
        error = self.error
        said = error and {"class": type(error).__name__, "text": str(error)}
        differs = {key: {"expected": a, "found": b} for key, (a, b) in self.differs.items()}
        return {"schema": "jumar.simulate/1", "exit": self.exit, "differs": differs,
                "error": said, **self.final}  # fmt: skip


def judge(text: str) -> Verdict:
    """Run a scenario file's text."""
    wish = None
    try:
        plain = parse(text)
        wish = expected_error(plain)
        scenario = read({**plain, "expect": {}} if wish else plain)
        final = Simulation(scenario).play()
    except (UsageError, PolicyError) as error:
        kind = "policy" if isinstance(error, PolicyError) else "usage"
        return Verdict(0 if wish == kind else 2, {}, {}, error)
    if wish is not None:
        return Verdict(1, final, {"error": (wish, None)})
    differs = difference(scenario.expect, final)
    return Verdict(1 if differs else 0, final, differs)
