"""JSON answers are documented, and the check finds wrong ones.

Every run of a command in these tests that was given ``--json`` is checked by `Cli` itself.
"""

from __future__ import annotations

import re

import pytest

from lakecli.cli.out.records import VIEWS
from lakecli.cli.out.schemas import ANSWERS, RECORDS, TYPES
from lakecli.cli.tree import COMMANDS
from tests.support.schemas import check_answer, check_record, words_of

SILENT = {"fs cat"}
"""Commands whose answer is bytes."""


def test_every_command_has_its_answer() -> None:
    assert set(ANSWERS) == set(COMMANDS) - SILENT
    assert list(ANSWERS) == sorted(ANSWERS)


def test_every_record_is_made_of_known_types_and_used() -> None:
    used = {answer.name for answers in ANSWERS.values() for answer in answers}
    for fields in RECORDS.values():
        for kind, _ in fields.values():
            for word in (" optional", " or null"):
                kind = kind.removesuffix(word)  # noqa: PLW2901 - peeled off step by step
            kinds = kind.removeprefix("list of ").split(" or ")
            assert set(kinds) <= {"null", *TYPES, *RECORDS}
            used.update(kinds)
    assert set(RECORDS) <= used


def test_every_view_is_of_a_record_that_is_answered() -> None:
    extended = {
        "endpoint address",
        "fetch report",
        "fsck counts",
        "gc report",
        "logged move",
        "pull report",
        "push report",
        "resolved",
    }
    # An answer has its fields, and more.
    for name in VIEWS:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
        assert words in RECORDS.keys() | extended, name


def test_the_check_finds_wrong_records() -> None:
    good = {"name": "main", "commit_id": "0" * 64}
    check_record("ref", good)
    bad_ones: list[object] = [
        {"name": "main"},
        {**good, "surplus": 1},
        {**good, "name": None},
        {**good, "commit_id": "0"},
        [],
    ]
    for bad in bad_ones:
        with pytest.raises(AssertionError):
            check_record("ref", bad)
    check_answer(["tag", "show", "x"], [good], whole=True)
    check_answer(["--json", "branch", "list", "x"], [good, good], whole=True)
    sides = {f"{side}_{what}": None for side in ("left", "right") for what in ("size", "checksum")}
    change = {"type": "added", "path": "a", **sides}
    check_answer(["merge", "a", "b", "--dry-run"], [change], whole=True)
    for count in (0, 2):
        with pytest.raises(AssertionError):
            check_answer(["tag", "show"], [good] * count, whole=True)
    check_answer(["tag", "show"], [], whole=False)


def test_words_of_a_command_line_are_found() -> None:
    assert words_of(["--json", "branch", "-q", "list", "lakefs://r"]) == "branch list"
