"""The suites of mutants name modules and tests that exist."""

from __future__ import annotations

from tests.mutants.sample import PROJECT, suites


def test_the_critical_modules_and_their_tests_exist() -> None:
    modules = [module for suite in suites().values() for module in suite["modules"]]
    assert len(modules) == len(set(modules))
    tests = {test.partition("::")[0] for suite in suites().values() for test in suite["tests"]}
    named = [*(f"lakecli/{each}" for each in modules), *(f"tests/{each}" for each in sorted(tests))]
    assert [each for each in named if not (PROJECT / each).is_file()] == []
