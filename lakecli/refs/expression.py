"""The grammar of ref expressions: modifiers, and the times in them.

A ref expression is a base, then modifiers applied from left to right::

    expression := base modifier*
    base       := one or more characters other than ~ ^ @ $ and white space
    modifier   := the symbol of a row of MODIFIERS, with decimal digits (default: 1) if the row
                  takes a number, or with a text in braces: ``~2``, ``@{3 days ago}``

This module only parses: an expression may name a ref or commit that does not exist. `resolve` looks
up refs and commits.

A time in ``main@{…}`` is ISO 8601, a word such as ``yesterday``, or a duration before now, such as
``3 days ago``. A time without an offset is UTC, and a date without a time is its midnight.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from lakecli.errors import UsageError

MAX_NUMBER = 2**31 - 1
"""The largest number after a modifier: generations have 32 bits, so no history is longer."""


class ModifierRule(NamedTuple):
    """The syntax and the meaning of one modifier.

    Attributes:
        symbol: the modifier itself; for a modifier with braces, a placeholder such as ``@{n}``.
        summary: the meaning of the modifier, for help texts; ``n`` is its number.
        takes_number: whether digits may follow.
        alone: whether it must be the only modifier, because it applies to a branch, not to a
            commit.
        within: for a modifier with braces, a regular expression for the text in the braces; the
            first rule that matches applies. Such a modifier must come first, because it applies to
            a branch or tag, not to a commit.
    """

    symbol: str
    summary: str
    takes_number: bool = False
    alone: bool = False
    within: str = ""


MODIFIERS = (
    ModifierRule(
        "~",
        "the n-th ancestor, always by first parents; ~0 is the commit itself",
        takes_number=True,
    ),
    ModifierRule("^", "the n-th parent; ^0 is the commit itself", takes_number=True),
    ModifierRule("@", "the branch as committed, its staging area left out", alone=True),
    ModifierRule("$", "the branch with its staging area, as the plain name reads", alone=True),
    ModifierRule(
        "@{upstream}",
        "where it stood in the bucket when this clone last looked; @{u} for short",
        within="(?i:u|upstream)",
    ),
    ModifierRule(
        "@{n}",
        "where it stood before its last n moves, as `lakecli reflog` counts them",
        within="[0-9]{1,7}",
    ),
    ModifierRule(
        "@{date}",
        "where it stood then: @{2026-11-01}, @{2026-11-01 10:00}, @{3 days ago}; UTC unless an "
        "offset is given",
        within=".*",
    ),
)
"""All modifiers. A new modifier needs a row in this table, and its meaning in `resolve.py`."""

_RULES = {rule.symbol: rule for rule in MODIFIERS}
_SYMBOLS = re.escape("".join(rule.symbol for rule in MODIFIERS if not rule.within))
# One symbol and the text up to the next one. `@{…}` comes before `@`, because the text in its
# braces may contain symbols.
# Compiled on first use: most refs are plain names.
_TOKEN = rf"(?:@\{{[^}}]*\}}?|[{_SYMBOLS}])[^{_SYMBOLS}]*"
_BRACES = r"@\{[^}]*\}?"
_BLANK = r"[\s\x00-\x1f\x7f]"


class Modifier(NamedTuple):
    """One modifier as written in a ref expression.

    Attributes:
        symbol: the symbol of the modifier's row in `MODIFIERS`.
        number: the number after the symbol, or in the braces of ``@{n}``; 1 by default.
        text: the modifier as typed.
        within: the text in the braces; ``""`` for a modifier without braces.
    """

    symbol: str
    number: int
    text: str
    within: str = ""

    @property
    def rule(self) -> ModifierRule:
        """The modifier's row in `MODIFIERS`."""
        return _RULES[self.symbol]


class RefExpression(NamedTuple):
    """A parsed ref expression.

    Attributes:
        base: a branch, a tag, a commit ID or a prefix of one, as typed.
        modifiers: the modifiers, in the order in which they apply.
    """

    base: str
    modifiers: tuple[Modifier, ...] = ()

    @property
    def asks_for_moves(self) -> bool:
        """Whether resolving the expression needs the moves of the branch or tag."""
        return any(modifier.rule.within for modifier in self.modifiers)

    def __str__(self) -> str:
        """Return the text that the expression was parsed from."""
        return self.base + "".join(modifier.text for modifier in self.modifiers)


def split_range(text: str) -> tuple[str, str, str] | None:
    """Split ``A..B`` or ``A...B`` into A, the dots and B; ``None`` if `text` has no ``..``.

    Names of branches and tags, and modifiers, never contain ``..``.

    Raises:
        UsageError: A or B is missing, or there are further dots.
    """
    left, dots, right = text.partition("..")
    if not dots:
        return None
    if right.startswith("."):
        dots, right = "...", right[1:]
    if not left or not right or ".." in right or right.startswith("."):
        raise UsageError(f"malformed range of refs {text!r}", hint="write both refs: main..feature")
    return left, dots, right


def parse_expression(text: str) -> RefExpression:
    """Parse a ref expression, without looking up what it names.

    Raises:
        UsageError: the expression is malformed; the message has the expression, its faulty part,
            and the position of this part, counted from 1.
    """
    if not text:
        raise UsageError("empty ref expression", hint="name a branch, a tag or a commit ID")
    # Most refs are plain names: no pattern is compiled for them.
    if text.isascii() and text.replace("-", "0").replace("_", "0").isalnum():
        return RefExpression(text, ())
    # A date in braces may contain spaces.
    plain = re.sub(_BRACES, lambda found: "." * len(found[0]), text) if "@{" in text else text
    blank = re.search(_BLANK, plain)
    if blank:
        raise _malformed(text, blank.start(), f"{blank[0]!r} cannot be in a ref")
    base = re.split(f"[{_SYMBOLS}]", text, maxsplit=1)[0]
    if not base:
        raise _malformed(text, 0, f"no branch, tag or commit ID before {text[0]!r}")
    tokens = [*re.compile(_TOKEN).finditer(text, len(base))]
    modifiers = tuple(_parse_modifier(text, token.start(), token[0]) for token in tokens)
    for token, modifier in zip(tokens, modifiers, strict=True):
        if modifier.rule.within and token is not tokens[0]:
            raise _malformed(text, token.start(), f"{modifier.text!r} must come first")
        if modifier.rule.alone and len(tokens) > 1:
            reason = f"{modifier.symbol!r} must be the only modifier"
            hint = f"{base}{modifier.symbol}, or leave it out"
            raise _malformed(text, token.start(), reason, hint=hint)
    return RefExpression(base, modifiers)


def _parse_modifier(text: str, position: int, token: str) -> Modifier:
    if token.startswith("@{"):
        return _parse_braces(text, position, token)
    rule = _RULES[token[0]]
    argument = token[1:]
    if argument and not rule.takes_number:
        reason = f"{rule.symbol!r} takes nothing after it: {argument!r}"
        raise _malformed(text, position + 1, reason)
    rest = argument.lstrip("0123456789")
    if rest:
        reason = f"only digits may follow {rule.symbol!r}, not {rest!r}"
        raise _malformed(text, position + 1 + len(argument) - len(rest), reason)
    # Compared by length first: converting a million digits takes a while.
    significant = argument.lstrip("0")
    if len(significant) > len(str(MAX_NUMBER)) or int(significant or 0) > MAX_NUMBER:
        shown = argument if len(argument) <= len(str(MAX_NUMBER)) else f"{len(argument)} digits"
        reason = f"the number after {rule.symbol!r} is over {MAX_NUMBER}: {shown}"
        raise _malformed(text, position + 1, reason)
    return Modifier(rule.symbol, int(significant or 0) if argument else 1, token)


def _parse_braces(text: str, position: int, token: str) -> Modifier:
    within, closing, rest = token[2:].partition("}")
    if not closing:
        raise _malformed(text, position, f"no '}}' after {token!r}")
    if rest:
        at = position + len(token) - len(rest)
        raise _malformed(text, at, f"'@{{…}}' takes nothing after it: {rest!r}")
    if "/" in within:
        reason = "no '/' inside the braces, which would end the ref"
        hint = f"write a date with hyphens: @{{{within.replace('/', '-')}}}"
        raise _malformed(text, position + 2 + within.index("/"), reason, hint=hint)
    with_braces = (rule for rule in MODIFIERS if rule.within)
    fitting = (rule for rule in with_braces if re.fullmatch(rule.within, within, re.DOTALL))
    symbol = next(fitting).symbol
    return Modifier(symbol, int(within) if symbol == "@{n}" else 1, token, within)


def _malformed(text: str, position: int, reason: str, *, hint: str | None = None) -> UsageError:
    """Return the error about the character of `text` at `position`, counted from 0."""
    return UsageError(
        f"malformed ref expression {text!r}: {reason} (character {position + 1})",
        hint=hint or "a branch, tag or commit ID, then ~n, ^n, or one of @ and $: main~2, v1.0^2",
    )


HINT: Final = (
    "as in 2026-11-01, 2026-11-01 10:00, 2026-11-01T10:00:00+02:00, now, today, yesterday, "
    "3 days ago"
)

_AGO: Final = r"([0-9]{1,9}|an?|one)[ .]([a-z]+?)s?[ .]ago"
_OFFSET: Final = r" +(?=[+-][0-9]{2}:?[0-9]{2}$|Z$)|(?<=[0-9]) *UTC$"
_MONTHS_IN_YEAR: Final = 12


UNITS: Final[Mapping[str, tuple[int, int]]] = {
    "second": (1, 0),
    "minute": (60, 0),
    "hour": (3600, 0),
    "day": (86_400, 0),
    "week": (7 * 86_400, 0),
    "month": (0, 1),
    "year": (0, _MONTHS_IN_YEAR),
}
"""Units allowed before ``ago``, in the singular, each with its length in (seconds, months)."""

WORDS: Final[Mapping[str, int]] = {"now": 0, "yesterday": 1}
"""Words for times, each with the number of days before the present."""


def parse_when(text: str, now: datetime) -> datetime:
    """Parse a time and return it in UTC; `now` is the present.

    Raises:
        UsageError: `text` is not a time, or is a time before the year 1.
    """
    words = " ".join(text.lower().split())
    try:
        if words == "today":  # the start of the day, as for any date without a time
            return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        if words in WORDS:
            return _before(now, WORDS[words], *UNITS["day"])
        ago = re.fullmatch(_AGO, words)
        if ago and ago[2] in UNITS:
            return _before(now, int(ago[1]) if ago[1].isdecimal() else 1, *UNITS[ago[2]])
        written = text.strip() if text.isprintable() else ""
        closely = re.sub(_OFFSET, lambda found: "Z" if "UTC" in found[0] else "", written)
        when = datetime.fromisoformat(closely)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"not a time: {text!r}", hint=HINT) from None


def _before(now: datetime, count: int, seconds: int, months: int) -> datetime:
    """Return the time `count` units before `now`; if a month is too short, use its last day.

    Args:
        seconds: the length of a unit in seconds.
        months: the length of a unit in calendar months.
    """
    total = now.year * _MONTHS_IN_YEAR + now.month - 1 - count * months
    year, month = divmod(total, _MONTHS_IN_YEAR)
    first = now.replace(year=year, month=month + 1, day=1)
    last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    then = first.replace(day=min(now.day, last.day))
    return (then - timedelta(seconds=count * seconds)).astimezone(UTC)
