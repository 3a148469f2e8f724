"""Defects put into the critical modules are found by their tests."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib.util import module_from_spec, spec_from_file_location
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from cosmic_ray.mutating import mutate_code

from tests.mutants.defects import DEFECTS
from tests.mutants.hot import loaded_functions, put_in, replacements
from tests.mutants.mutations import OPERATORS, Mutation, mutations, source
from tests.mutants.suites import PACKAGE, PROJECT, SUITES, Suite
from tests.mutants.survivors import survivors
from tests.mutants.workbench import Runner, Workbench, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOAL = 0.95
CANARY = "raise RuntimeError('a test imports this')\n"


@dataclass(slots=True)
class Score:
    """What became of the mutants of a module."""

    killed: int = 0
    accepted: int = 0
    survived: list[Mutation] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return self.killed + self.accepted + len(self.survived)


def changed_since(commit: str) -> set[str]:
    """Return the modules below `lakecli` that differ from a commit."""
    command = ["git", "diff", "--name-only", "--relative=lakecli", commit, "--", "lakecli"]
    found = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    return set(found.stdout.splitlines())


def sample(config: pytest.Config, modules: list[str]) -> Iterator[Mutation]:
    """Yield mutants in the order in which they are to be tried: changed modules first, whole."""
    random = Random(config.getoption("--mutants-seed"))
    since = config.getoption("--mutants-since")
    changed = changed_since(since) if since else set()
    rest = [each for module in modules if module not in changed for each in mutations(module)]
    random.shuffle(rest)
    yield from (each for module in modules if module in changed for each in mutations(module))
    yield from rest[: config.getoption("--mutants-sample")]


def show(capfd: pytest.CaptureFixture[str], text: str) -> None:
    with capfd.disabled():
        print(text, flush=True)


def described(mutation: Mutation) -> str:
    place = f"lakecli/{mutation.module}:{mutation.number}: {mutation.operator}"
    return f"{place}\n    - {mutation.line}\n    + {mutation.becomes()}"


@pytest.mark.nightly
@pytest.mark.timeout(0)
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.title)
def test_the_tests_kill_mutants(
    request: pytest.FixtureRequest, tmp_path: Path, capfd: pytest.CaptureFixture[str], suite: Suite
) -> None:
    pattern = request.config.getoption("--mutants-of")
    modules = [module for module in suite.modules if fnmatch(module, pattern)]
    if not modules:
        pytest.skip(f"none of its modules matches {pattern}")
    accepted = survivors()
    scores = {module: Score() for module in modules}
    begun = time.monotonic()
    # Read before the copy is made: somebody may edit the modules while the tests run.
    sampled = list(sample(request.config, modules))
    with Workbench(tmp_path) as bench, Runner(bench, suite) as runner:
        unused = [module for module in modules if not runner.is_used(module)]
        assert unused == [], "no test of the suite uses them"
        deadline = time.monotonic() + 60 * request.config.getoption("--mutants-minutes")
        for mutation in sampled:
            if time.monotonic() > deadline:
                break
            score = scores[mutation.module]
            if any(survivor.is_of(mutation) for survivor in accepted):
                score.accepted += 1
                continue
            trial = runner.try_mutant(mutation.module, mutation.number, mutation.apply())
            if trial is None:
                continue
            if trial.passed:
                score.survived.append(mutation)
                show(capfd, f"survived: {described(mutation)}")
            else:
                score.killed += 1
    report(suite, scores, time.monotonic() - begun, capfd)
    killed = sum(score.killed for score in scores.values())
    survived = [mutation for score in scores.values() for mutation in score.survived]
    listed = "\n".join(map(described, survived))
    assert killed >= GOAL * (killed + len(survived)), f"{suite.title}:\n{listed}"


@pytest.mark.nightly
@pytest.mark.timeout(0)
def test_the_tests_find_known_defects(
    request: pytest.FixtureRequest, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pattern = request.config.getoption("--mutants-of")
    deadline = time.monotonic() + 60 * request.config.getoption("--mutants-minutes")
    defects = [defect for defect in DEFECTS if fnmatch(defect.module, pattern)]
    Random(request.config.getoption("--mutants-seed")).shuffle(defects)
    tests = {module: suite.tests for suite in SUITES for module in suite.modules}
    passed: dict[tuple[str, ...], float] = {}
    missed = []
    with Workbench(tmp_path) as bench:
        for number, defect in enumerate(defects):
            if time.monotonic() > deadline:
                show(capfd, f"not tried: {len(defects) - number} of {len(defects)}")
                break
            suite = tests[defect.module]
            if suite not in passed:
                sound = bench.run(suite, seconds=1800)
                assert sound.passed, f"fails without a defect:\n{sound.output}"
                passed[suite] = sound.seconds
            code = source(defect.module).replace(defect.old, defect.new)
            trial = bench.mutate(defect.module, code, suite, seconds=3 * passed[suite] + 30)
            show(capfd, f"{'missed' if trial.passed else 'found'}: {defect.title}")
            if trial.passed:
                missed.append(defect.title)
    assert missed == []


def test_every_known_defect_can_be_made() -> None:
    critical = {module for suite in SUITES for module in suite.modules}
    assert {defect.module for defect in DEFECTS} <= critical
    made = {defect.title: source(defect.module).count(defect.old) for defect in DEFECTS}
    assert [title for title, count in made.items() if count != 1] == []


def report(
    suite: Suite, scores: dict[str, Score], seconds: float, capfd: pytest.CaptureFixture[str]
) -> None:
    """Show the counts of each module."""
    columns = f"{'mutants':>9}{'tried':>7}{'killed':>8}{'accepted':>10}{'left':>6}"
    show(capfd, f"\n{f'{suite.title}, {seconds:.0f} s':44}{columns}")
    for module, score in scores.items():
        show(
            capfd,
            f"{module:44}{len(mutations(module)):9}{score.tried:7}{score.killed:8}"
            f"{score.accepted:10}{len(score.survived):6}",
        )


def test_the_critical_modules_and_their_tests_exist() -> None:
    modules = [module for suite in SUITES for module in suite.modules]
    assert len(modules) == len(set(modules))
    missing = [module for module in modules if not (PACKAGE / module).is_file()]
    tests = {test.partition("::")[0] for suite in SUITES for test in suite.tests}
    missing += [test for test in sorted(tests) if not (PROJECT / "tests" / test).is_file()]
    assert missing == []


def test_every_accepted_survivor_is_a_mutant_and_has_its_reason() -> None:
    for survivor in survivors():
        assert len(survivor.reason) > 20, survivor
        assert any(survivor.is_of(each) for each in mutations(survivor.module)), (
            f"{survivor.module} has changed: remove or rewrite the entry\n{survivor}"
        )


def test_a_mutant_differs_from_its_module_by_its_operator() -> None:
    unused = set(OPERATORS)
    for module in (module for suite in SUITES for module in suite.modules):
        unused -= {each.operator for each in mutations(module)}
        if not unused:
            break
    assert not unused
    removed = next(each for each in mutations("remote/move.py") if each.operator == "RemoveCall")
    before, after = source(removed.module).splitlines(), removed.apply().splitlines()
    assert (after[removed.number - 1].strip(), removed.becomes()) == ("pass", "pass")
    assert before[: removed.number - 1] == after[: removed.number - 1]


@pytest.mark.parametrize(
    ("clause", "mutants"),
    [
        ("OSError", ["{}"]),
        ("lmdb.Error as error", ["lmdb.{} as error"]),
        ("(lmdb.Error, OSError)", ["(lmdb.{}, OSError)", "(lmdb.Error, {})"]),
        ("(OSError)", ["({})"]),
    ],
)
def test_each_name_of_an_except_clause_is_replaced(clause: str, mutants: list[str]) -> None:
    text = f"try:\n    pass\nexcept {clause}:\n    pass\n"
    operator = OPERATORS["ExceptionReplacer"]
    found = [mutate_code(text, operator, occurrence) for occurrence in range(len(mutants) + 1)]
    made = [text.replace(clause, each.format("CosmicRayTestingException")) for each in mutants]
    assert found == [*made, None]


def test_a_test_that_fails_kills_and_one_that_passes_does_not(tmp_path: Path) -> None:
    tests = ["test_ids.py"]
    with Workbench(tmp_path) as bench:
        assert bench.run(tests, seconds=200).passed
        assert not bench.mutate("ids.py", CANARY, tests, seconds=200).passed
        assert bench.run(tests, seconds=200).passed


BEFORE = """
LIMIT = 3

def many(count):
    def is_more(other):
        return other > count
    return is_more

more = many(LIMIT)

class Box:
    size = 1

    def fits(self, count):
        return count <= self.size
"""


@pytest.mark.parametrize(
    ("old", "new"), [("other > count", "other >= count"), ("count <= self", "count < self")]
)
def test_the_code_of_functions_is_replaced_where_they_are(
    tmp_path: Path, old: str, new: str
) -> None:
    path = tmp_path / "module.py"
    path.write_text(BEFORE)
    spec = spec_from_file_location("module", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    functions = loaded_functions(str(tmp_path))[str(path)]
    codes = replacements(str(path), BEFORE, BEFORE.replace(old, new))
    assert codes
    assert (module.more(3), module.Box().fits(1)) == (False, True)
    put_in(functions, codes)
    changed = "other" in old
    assert (module.more(3), module.Box().fits(1)) == (changed, changed)


@pytest.mark.parametrize(("old", "new"), [("LIMIT = 3", "LIMIT = 4"), ("size = 1", "size = 2")])
def test_what_runs_at_import_cannot_be_replaced(old: str, new: str) -> None:
    assert replacements("module.py", BEFORE, BEFORE.replace(old, new)) is None


def test_a_comment_is_no_mutant() -> None:
    assert replacements("module.py", BEFORE, BEFORE + "# more\n") == {}


NESTED = """
class Box:
    def fits(
        self, count=0
    ):
        if (
            count
        ):
            return [
                count
            ]
        try:
            with self: pass
        except KeyError:
            raise
        def inner():
            return 1
"""


@pytest.mark.parametrize(
    ("number", "lines"),
    [
        (2, None),
        (4, None),
        (6, range(6, 9)),
        (8, range(6, 9)),
        (10, range(9, 12)),
        (12, range(12, 13)),
        (13, range(13, 14)),
        (14, range(14, 15)),
        (15, range(15, 16)),
        (17, range(17, 18)),
    ],
)
def test_a_mutant_is_tried_on_the_tests_that_run_its_statement(
    number: int, lines: range | None
) -> None:
    assert statement_at(NESTED, number) == lines


def test_a_runner_finds_mutants_inside_functions_and_outside(tmp_path: Path) -> None:
    suite = Suite("identifiers", ("ids.py",), ("test_ids.py",))
    found = {each.operator: each for each in mutations("ids.py")}
    inside, outside = found["AddNot"], found["NumberReplacer"]
    with Workbench(tmp_path) as bench, Runner(bench, suite) as runner:
        assert runner.is_used("ids.py")
        trial = runner.try_mutant("ids.py", inside.number, inside.apply())
        assert trial is not None
        assert not trial.passed
        assert "_SHOWN" in outside.line
        trial = runner.try_mutant("ids.py", outside.number, outside.apply())
        assert trial is not None
        assert trial.passed  # as survivors.toml says


def test_a_mutant_that_never_ends_is_killed_in_time(tmp_path: Path) -> None:
    suite = Suite("identifiers", ("ids.py",), ("test_ids.py",))
    line = "        return cls(data.hex())\n"
    text = source("ids.py")
    looping = text.replace(line, "        while True: pass\n")
    number = text[: text.index(line)].count("\n") + 1
    with Workbench(tmp_path) as bench, Runner(bench, suite, least=1) as runner:
        # A mutant with something new besides its functions is imported anew.
        for code in (looping, f"{looping}LOOPS = True\n"):
            trial = runner.try_mutant("ids.py", number, code)
            assert trial is not None
            assert not trial.passed
            assert "Timeout" in trial.output
            assert trial.seconds < 20
