"""A run of mutants over the modules that must not be wrong.

A mutant is the program with one small defect put in: a comparison turned round, a call left out.
Some test has to fail on each. cosmic-ray makes the mutants; `suites` says which tests have to
kill those of which module; `survivors.toml` lists those that no test can kill, with the reason.

    pytest -m nightly tests/mutants                             # 40 mutants of each suite
    pytest -m nightly tests/mutants --mutants-since v1.2        # first all of what changed since
    pytest -m nightly tests/mutants --mutants-of 'repository/*' --mutants-sample 200

cosmic-ray's own runner has one test command for a session, changes the files of the working tree
and starts a new interpreter for every mutant. mutmut 3 needs one run of the whole suite before the
first mutant, and does not change what a test runs as another process.

This one has tests for each module and works in a copy. It collects them once, in a process that
has imported all of lakecli (`serving`), and finds out which lines each of them runs. For a mutant
that process is forked, its functions get the mutant's code (`hot`), and the tests that run the
changed statement run, the likeliest first, up to the first that fails. What a module runs when it
is imported is imported anew, in a fork of a process that has only the libraries (`forking`).
"""
