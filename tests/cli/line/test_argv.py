from __future__ import annotations

import pytest
from hypothesis import given as generated
from hypothesis import strategies as st

from lakecli.cli.line.argv import Globals, normalise, split, without_secrets
from lakecli.cli.line.declare import Option

OPTIONS = (
    Option("TEXT", "", "--message", "-m"),
    Option(None, "", "--recursive", "-r"),
    Option(None, "", "--yes", "-y"),
    Option(None, "", "--pre-sign/--no-pre-sign"),
    Option("N", "", "--amount"),
)
COMMANDS = {("log",), ("branch",), ("branch", "list"), ("refs-dump",)}


def settings(given: Globals) -> dict[str, object]:
    return {name: value for name, value in vars(given).items() if value not in (None, False)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # lakectl's booleans
        ("--recursive", "--recursive"),
        ("--recursive=true", "--recursive"),
        ("--recursive=false", ""),
        ("--recursive --recursive=false x", "x"),
        ("-r --recursive=0", ""),
        ("--recursive=false -r", "-r"),
        ("--pre-sign=false", "--no-pre-sign"),
        ("--pre-sign=T", "--pre-sign"),
        ("--no-pre-sign", "--no-pre-sign"),
        ("-r=false", ""),
        ("-r=true", "-r"),
        # single letters
        ("-ry", "-r -y"),
        ("-mtext", "-mtext"),
        ("-m=text", "-mtext"),
        ("-m text", "-mtext"),
        ("-rm text", "-r -mtext"),
        ("-ymr", "-y -mr"),
        ("-m", "-m"),
        # values stay with their option
        ("--message text", "--message=text"),
        ("--message=text", "--message=text"),
        ("--amount -1", "--amount=-1"),
        ("--message", "--message"),
        ("-m -r --recursive=false", "-m-r"),
        # what is not known goes to Typer as it is
        ("--unknown=false x", "--unknown=false x"),
        ("-x", "-x"),
        ("-rx", "-r -x"),
        ("-", "-"),
        ("", ""),
    ],
)
def test_options_are_normalised_for_typer(line: str, expected: str) -> None:
    given = Globals()
    assert normalise(line.split(), given, OPTIONS) == expected.split()
    assert settings(given) == {}


@pytest.mark.parametrize(
    ("line", "expected", "taken"),
    [
        ("--json x", "x", {"json": True}),
        ("x --json", "x", {"json": True}),
        ("x --json=false", "x", {}),
        ("-q x", "x", {"quiet": True}),
        ("-rq x", "-r x", {"quiet": True}),
        ("-qr x", "-r x", {"quiet": True}),
        ("x --base-uri lakefs://r/", "x", {"base_uri": "lakefs://r/"}),
        ("x --base-uri=lakefs://r/ y", "x y", {"base_uri": "lakefs://r/"}),
        ("--config --json x", "x", {"config": "--json"}),
        ("-h", "", {"help": True}),
        ("x --help --verbose --no-color", "x", {"help": True, "verbose": True, "no_color": True}),
        # a value, or what follows --, is nobody's option
        ("-m --json", "-m--json", {}),
        ("--message --help x", "--message=--help x", {}),
        ("--message=--json", "--message=--json", {}),
        ("-rm --json -q", "-r -m--json", {"quiet": True}),
        ("--amount -q", "--amount=-q", {}),
        ("x -- --json -q --recursive=false", "x -- --json -q --recursive=false", {}),
        ("--json -- --help", "-- --help", {"json": True}),
    ],
)
def test_global_options_may_follow_the_command(
    line: str, expected: str, taken: dict[str, object]
) -> None:
    given = Globals()
    assert normalise(line.split(), given, OPTIONS) == expected.split()
    assert settings(given) == taken


def test_an_empty_value_is_kept() -> None:
    assert normalise(["-m", "", "x"], Globals(), OPTIONS) == ["-m", "", "x"]
    assert normalise(["--message", ""], Globals(), OPTIONS) == ["--message="]


@pytest.mark.parametrize("line", ["--recursive=maybe", "--json=", "-r=x", "-q=2", "--base-uri"])
def test_errors_wait_until_the_line_is_read(line: str) -> None:
    given = Globals()
    normalise([*line.split(), *([] if line == "--base-uri" else ["--json"])], given, OPTIONS)
    assert given.problem is not None
    assert given.problem.message.startswith("option -")
    assert given.json == (line != "--base-uri")


@pytest.mark.parametrize(
    ("line", "words", "rest", "taken"),
    [
        ("branch list lakefs://r", "branch list", "lakefs://r", {}),
        ("--json branch -q list x", "branch list", "x", {"json": True, "quiet": True}),
        ("--base-uri log log x", "log", "x", {"base_uri": "log"}),
        ("--base-uri=lakefs:// log", "log", "", {"base_uri": "lakefs://"}),
        ("log branch list", "log", "branch list", {}),
        ("branch lsit x", "branch", "lsit x", {}),
        ("--version", "", "", {"version": True}),
        ("-v log", "log", "", {"version": True}),
        ("log -v", "log", "-v", {}),
        ("--unknown log", "", "--unknown log", {}),
        ("-- log", "", "-- log", {}),
        ("", "", "", {}),
    ],
)
def test_split_finds_the_words_of_a_command(
    line: str, words: str, rest: str, taken: dict[str, object]
) -> None:
    given = Globals()
    found = split(line.split(), given, is_prefix=COMMANDS.__contains__)
    assert found == (tuple(words.split()), rest.split())
    assert settings(given) == taken


@generated(st.lists(st.text(alphabet="-rmyx=q", max_size=4)))
def test_values_are_passed_unchanged(values: list[str]) -> None:
    """Whatever a message says, it arrives, and nothing else happens."""
    given = Globals()
    line = [word for value in values for word in ("--message", value)]
    assert normalise(line, given, OPTIONS) == [f"--message={value}" for value in values]
    assert settings(given) == {}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "import --conf spark.x.secret.key=a=b --to x",
            "import --conf spark.x.secret.key=... --to x",
        ),
        (
            "import --conf=spark.x.password=p --conf k=v",
            "import --conf=spark.x.password=... --conf k=...",
        ),
        ("config set serve.secret-key a=b -q", "config set serve.secret-key ... -q"),
        ("commit lakefs://demo/main -m a=b --conf", "commit lakefs://demo/main -m a=b --conf"),
    ],
)
def test_values_of_settings_are_not_logged(line: str, shown: str) -> None:
    assert without_secrets(line.split()) == shown.split()


def test_the_first_word_can_end_the_options() -> None:
    given = Globals()
    line = ["--json", "-m", "x", "sh", "-c", "exit", "--json=false"]
    expected = ["-mx", "--", "sh", "-c", "exit", "--json=false"]
    assert normalise(line, given, OPTIONS, ends_at_word=True) == expected
    assert given.json
