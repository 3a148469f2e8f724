"""A run of mutants over the modules that must not be wrong.

A mutant is the program with one small defect put in: a comparison turned round, a call left out.
Some test has to fail on each. cosmic-ray makes the mutants; `suites` says which tests have to
kill those of which module; `survivors.toml` lists those that no test can kill, with the reason.

    pytest -m nightly tests/mutants                             # a sample of all modules
    pytest -m nightly tests/mutants --mutants-since v1.2        # first all of what changed since
    pytest -m nightly tests/mutants --mutants-of 'repository/*' --mutants-minutes 20

cosmic-ray's own runner has one test command for a session, changes the files of the working tree
and starts a new interpreter for every mutant. This one has a command for each module, works in
a copy, and forks an interpreter that has the libraries imported; mutmut 3 needs one run of the
whole suite before the first mutant, and does not change what a test runs as another process.
"""
