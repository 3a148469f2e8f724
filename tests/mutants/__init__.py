"""Mutation tests: small defects in the critical modules, each of which some test has to detect.

A mutant is a module with one small change: a comparison reversed, a call removed. It is killed if
a test fails on it; otherwise it survives. cosmic-ray generates the mutants, `suites` names the
tests that have to kill those of each module, and `survivors.toml` lists the accepted survivors with
the reason why no test has to kill them. Of the mutants that are not accepted, 95 % must be killed.

    pytest -m nightly tests/mutants                             # 40 mutants of each suite
    pytest -m nightly tests/mutants --mutants-since v1.2        # first all of the changed modules
    pytest -m nightly tests/mutants --mutants-of 'repository/*' --mutants-sample 200

`--mutants-seed` chooses another sample. `defects` has larger defects, written by hand, which lost
data once; all of them must be detected.

The usual runners are too slow here. cosmic-ray starts an interpreter for each mutant, changes the
working tree, and has one test command for all modules; mutmut 3 runs the whole test suite before
the first mutant, and ignores tests that run lakecli as another process.

This runner works in a copy of the project (`workbench`), with tests for each module. A process
imports lakecli, collects the tests of a suite once, and records which lines each test runs
(`serving`). For each mutant the process forks, the fork replaces the changed functions (`hot`), and
runs the tests that run the changed statement, the likeliest first, up to the first failure. A
mutant outside of functions changes what runs at import: for such a mutant, a process that has
imported only libraries forks, and the fork imports lakecli anew (`forking`).
"""
