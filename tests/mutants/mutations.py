"""The mutants of a module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.exception_replacer import ExceptionReplacer
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator
from parso.python.tree import Keyword

from tests.mutants.suites import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator


class RemoveCall(Operator):  # type: ignore[misc]  # cosmic-ray has no types
    """Remove a statement that is only a call, for which cosmic-ray has no operator."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[object, object]]:
        parent = node.parent
        if parent is not None and parent.type == "simple_stmt" and node.type == "atom_expr":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Keyword:
        return Keyword("pass", node.start_pos, node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("send(it)\n", "pass\n"),)


class ReplaceException(ExceptionReplacer):  # type: ignore[misc]  # as above
    """Replace a name in an `except` clause; cosmic-ray's operator fails on ``module.Error``."""

    @staticmethod
    def _name_nodes(node: Any) -> list[Any]:
        listed = node.children[1]
        if listed.type == "atom":
            listed = listed.children[1]
        names = listed.children[::2] if listed.type == "testlist_comp" else [listed]
        return [name.get_last_leaf() for name in names]


NAMES = (
    "AddNot",
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ReplaceComparisonOperator_Eq_NotEq",
    "ReplaceComparisonOperator_NotEq_Eq",
    "ReplaceComparisonOperator_Lt_LtE",
    "ReplaceComparisonOperator_LtE_Lt",
    "ReplaceComparisonOperator_Gt_GtE",
    "ReplaceComparisonOperator_GtE_Gt",
    "ReplaceComparisonOperator_Is_IsNot",
    "ReplaceComparisonOperator_IsNot_Is",
    "ReplaceBinaryOperator_Add_Sub",
    "ReplaceBinaryOperator_Sub_Add",
    "ReplaceBinaryOperator_Mul_FloorDiv",
    "NumberReplacer",
    "ZeroIterationForLoop",
)
"""The operators of cosmic-ray whose mutants are worth a test.

Left out: other operators in place of `|`, which is mostly in annotations that nothing evaluates;
removed decorators; and six more changes of the same comparison.
"""

OPERATORS: dict[str, Any] = {name: get_operator(f"core/{name}")() for name in NAMES}
OPERATORS["ExceptionReplacer"] = ReplaceException()
OPERATORS["RemoveCall"] = RemoveCall()

WITHOUT_EFFECT = re.compile(r"if TYPE_CHECKING|@dataclass|\"\"\"|.*\b_?on_step\(")
"""Lines whose mutants have no effect: imports for types, fields of records, steps for tests."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of one module: `operator` applied where it applies for the nth time.

    Attributes:
        module: below `lakecli`.
        number: the line, from 1.
        line: its text.
    """

    module: str
    operator: str
    occurrence: int
    number: int
    line: str

    def apply(self) -> str:
        """Return the mutated text of the module."""
        code = mutate_code(source(self.module), OPERATORS[self.operator], self.occurrence)
        assert isinstance(code, str)
        return code

    def becomes(self) -> str:
        """Return the line as the mutant has it."""
        return self.apply().splitlines()[self.number - 1].strip()


@cache
def source(module: str) -> str:
    return (PACKAGE / module).read_text()


@cache
def mutations(module: str) -> tuple[Mutation, ...]:
    """Return all mutants of a module, in a fixed order."""
    text = source(module)
    lines = text.splitlines()
    nodes = list(ast_nodes(get_ast(text)))
    found = []
    for name, operator in OPERATORS.items():
        positions = [begin for node in nodes for begin, _ in operator.mutation_positions(node)]
        for occurrence, (number, _) in enumerate(positions):
            line = lines[number - 1].strip()
            if not WITHOUT_EFFECT.match(line):
                found.append(Mutation(module, name, occurrence, number, line))
    return tuple(found)
