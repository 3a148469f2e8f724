"""``lakecli gc set-config``."""

from __future__ import annotations

from typing import Annotated

from lakecli.base.parsing import read_text
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.params import RepositoryUri
from lakecli.cli.reading import Completion, Kind
from lakecli.errors import NotFound
from lakecli.gc.rules import parse_rules, put_rules, rules_fields


def gc_set_config(
    context: Context,
    repository: RepositoryUri,
    *,
    filename: Annotated[
        str,
        Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="File with the rules as JSON; - for standard input",
        ),
        Completion(Kind.FILE),
    ],
) -> None:
    """Set the retention rules: how long commits keep their objects, per branch.

    The rules are lakeFS's: a default number of days, and different numbers for some branches. A
    commit keeps its objects for that number of days after a newer commit replaced it at the head of
    the branch. Heads and tags always keep theirs. Without rules, every commit that branches and
    tags reach keeps its objects. The rules hold for all clones from the next `lakecli gc run` on.

        {"default_retention_days": 21,
         "branches": [{"branch_id": "main", "retention_days": 28}]}

    Examples:
        lakecli gc set-config lakefs://demo -f rules.json
        lakecli gc set-config lakefs://demo -f -
    """
    if filename == "-":
        text = context.stdin.read()
    else:
        try:
            text = read_text(filename, errors="surrogateescape")
        except OSError as error:
            raise NotFound(f"cannot read {filename}: {(error.strerror or '').lower()}") from error
    rules = parse_rules(text)
    put_rules(context.repository(repository).store, rules)
    context.out.emit(rules_fields(rules))
    context.out.note("set the retention rules")
