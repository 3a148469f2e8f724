from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import table
from tests.servers.catalogue import SERVERS, Server
from tests.servers.job import Measured
from tests.servers.table import Row

HOME = str(Path.home())
"""Where servers are kept between runs; each test has another home."""

ROWS = {
    "MinIO 2026": Row(pushes=True, lacks=("names of 256 bytes", "a name beside a directory's")),
    "moto 5": Row(pushes=False, lacks=()),
}


def test_a_table_is_read_as_it_was_written() -> None:
    written = "\n".join(table.lines_of(ROWS))

    assert table.read_page(f"Before.\n\n{written}\n\n## After\n") == (
        "Before.\n\n",
        ROWS,
        "\n\n## After\n",
    )
    assert max(map(len, written.splitlines())) <= 4 + 69  # what a manual page of 80 columns has


def test_rows_that_were_not_measured_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "clouds.md"
    page.write_text("\n".join(["# Clouds", "", *table.lines_of(ROWS), "", "The end.", ""]))
    monkeypatch.setattr(table, "PAGE", page)
    found = {"MinIO 2027": Measured(pushes=False, lacks=["right answers to ranges"])}

    assert table.conclude(found, write=False) == 1
    assert "other rows of: MinIO 2027" in capsys.readouterr().out
    assert table.conclude(found, write=True) == 0
    assert table.read_page(page.read_text())[1] == {
        "MinIO 2027": Row(pushes=False, lacks=("right answers to ranges",)),
        "moto 5": ROWS["moto 5"],
    }
    assert table.conclude(found, write=False) == 0


def test_the_manual_names_no_other_version_of_a_server_than_is_measured() -> None:
    pinned = [each for each in SERVERS if each.is_pinned]
    titles = {table.without_version(each.title): each.title for each in pinned}

    for title in table.read_page(table.PAGE.read_text("utf-8"))[1]:
        assert titles.get(table.without_version(title), title) == title


@pytest.mark.nightly
def test_the_row_of_moto_is_what_the_main_job_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    _compare(next(each for each in SERVERS if each.name == "moto"), monkeypatch)


def test_a_race_that_was_lost_once_stays_in_the_row() -> None:
    once, never = Row(pushes=False, lacks=(table.RACE, "b")), Row(pushes=True, lacks=("b",))

    assert table.joined(once, never) == table.joined(never, once) == once
    assert table.joined(never, never) == table.joined(None, never) == never


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
def test_the_row_in_the_manual_is_what_the_main_job_finds(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    _compare(server, monkeypatch)


def _compare(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", HOME)
    measured = table.measure(server)

    assert not measured.untrue
    rows = table.read_page(table.PAGE.read_text("utf-8"))[1]
    by_name = {table.without_version(title): row for title, row in rows.items()}
    row = by_name[table.without_version(server.title)]
    assert row == table.joined(row, table.row_of(measured)), measured.said
