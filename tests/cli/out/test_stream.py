"""Streams of items whose texts are made many at a time: order, errors, and JSON."""

from __future__ import annotations

import io
from threading import Thread, get_ident
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.out.output import _ITEMS_AT_ONCE, Output

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY = _ITEMS_AT_ONCE * 2 + 5


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


def inverses(items: list[int]) -> Iterator[str]:
    return (f"{12 // item}" for item in items)


def record(item: int) -> dict[str, int]:
    return {"item": item}


def test_texts_are_made_of_what_goes_out_together(log: io.StringIO) -> None:
    sizes: list[int] = []

    def texts(items: list[int]) -> list[str]:
        sizes.append(len(items))
        return list(map(str, items))

    assert Output(log, log).stream(range(MANY), record=record, texts=texts) == MANY
    assert log.getvalue().split() == list(map(str, range(MANY)))
    assert sizes == [_ITEMS_AT_ONCE, _ITEMS_AT_ONCE, 5]


def test_each_item_is_shown_at_once_on_a_terminal(log: io.StringIO) -> None:
    out = Output(log, log, interactive=True)

    def items() -> Iterator[int]:
        for item in (1, 2, 3):
            yield item
            assert log.getvalue().count("\n") == item

    out.stream(items(), record=record, texts=inverses)


def test_what_comes_before_an_item_without_a_text_is_written(log: io.StringIO) -> None:
    with pytest.raises(ZeroDivisionError):
        Output(log, log).stream([1, 2, 0, 3], record=record, texts=inverses)
    assert log.getvalue() == "12\n6\n"


@pytest.mark.parametrize("last", [3, 0])
def test_what_comes_before_an_error_is_written_before_it(log: io.StringIO, last: int) -> None:
    def items() -> Iterator[int]:
        yield from (1, 2, last)
        raise KeyError("the next one")

    out = Output(log, log)
    with pytest.raises(KeyError if last else ZeroDivisionError):
        out.stream(items(), record=record, texts=inverses)
    out.error("it failed", hint=None, paths=())
    assert log.getvalue() == f"12\n6\n{'4' + chr(10) if last else ''}error: it failed\n"


def test_a_hint_while_items_come_stands_after_those_before_it(log: io.StringIO) -> None:
    out = Output(log, log)
    shown = out.page(iter([1, 2, 3, 4]), amount=3)
    assert out.stream(shown, record=record, texts=inverses) == 3
    assert log.getvalue() == "12\n6\n4\nhint: for more results run with --amount 0\n"


def test_json_has_records(log: io.StringIO) -> None:
    assert Output(log, log, json=True).stream([1], record=record, texts=inverses) == 1
    assert log.getvalue() == '{"item": 1}\n'


def test_a_message_of_another_thread_leaves_items_in_their_order(log: io.StringIO) -> None:
    output = Output(io.StringIO(), log)
    threads: set[int] = set()

    def text(item: int) -> str:
        threads.add(get_ident())
        return str(item)

    def items() -> Iterator[int]:
        yield 1
        other = Thread(target=output.debug, args=("a request",))
        other.start()
        other.join()
        yield 2

    assert output.stream(items(), record=record, text=text) == 2
    assert threads == {get_ident()}
