"""Which tests the short run leaves to the long one, and which run with the lowest versions.

A test belongs to the long run if it carries one of the markers of `LONG`. It gets its marker here:
by the server or the Spark session that it asks for, or by the directory or file that it is in.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]

LONG = {
    "servers": "servers of S3, Google Cloud Storage, Azure and lakeFS, shells, and other libraries",
    "spark": "a Spark session",
    "meetings": "commands that meet each other, crashes, forged buckets, damage, fuzzing",
    "quality": "lint, types, contracts, generated files, start-up, the compiled core, mutants",
}
"""The markers of the long run, and what their tests need or are."""

SERVERS = {"moto_endpoint", "rclone_endpoint", "gcs_server", "azurite_script"}
SHORT = {"cli/test_s3.py"}
"""Files of the short run although they start moto."""

PLACES = {
    "filesystem/test_block_processes.py": "meetings",
    "filesystem/test_abstract.py": "servers",
    "filesystem/test_iceberg.py": "servers",
    "filesystem/test_libraries.py": "servers",
    "gc/test_spark_live_set_in_process.py": "spark",
    "servers": "servers",
    "serving/api/test_clients.py": "servers",
    "serving/api/test_schema.py": "servers",
    "serving/api/test_hostile.py": "servers",
    "serving/test_s3_cases.py": "servers",
    "serving/test_clients.py": "servers",
    "serving/test_more_clients.py": "servers",
    "serving/test_hostile.py": "servers",
    "serving/test_server.py": "servers",
    "sstable/test_rocksdb.py": "servers",
    "stores/azure/test_errors.py": "servers",
    "stores/gs/test_errors.py": "servers",
    "stores/s3/test_errors.py": "servers",
    "stores/test_slow_logins.py": "servers",
    "stores/test_versions.py": "servers",
    "exports/test_buckets.py": "servers",
    "cli/commands/test_import_pin_versions.py": "servers",
    "repository/sharing/test_automatic_races.py": "servers",
    "repository/handoff/test_download_script.py": "servers",
    "repository/handoff/test_upload_documents.py": "servers",
    "cli/test_bucket_policy.py": "servers",
    "cli/manual/test_policies.py": "servers",
    "cli/manual/test_completion.py": "servers",
    "cli/commands/test_lakefs.py": "servers",
    "repository/lakefs/test_identity.py": "servers",
    "repository/lakefs/test_rebuild.py": "servers",
    "repository/lakefs/test_restore.py": "servers",
    "repository/lakefs/test_wild.py": "servers",
    "serving/api/test_lakectl.py": "servers",
    "serving/api/test_lakectl_program.py": "servers",
    "cli/test_lakefs_program.py": "servers",
    "cli/manual/test_examples.py": "quality",
    "cli/manual/test_generated.py": "quality",
    "cli/test_startup.py": "quality",
    "benchmarks/test_trees.py": "quality",
    "meetings": "meetings",
    "protocol": "meetings",
    "remote/test_move_law.py": "meetings",
    "cli/out/test_escapes.py": "meetings",
    "cli/test_current_directory.py": "meetings",
    "cli/test_hostile_input.py": "meetings",
    "cli/test_movers.py": "meetings",
    "repository/policy/test_random_teams.py": "meetings",
    "repository/test_run_crashes.py": "meetings",
    "gc/test_protocol.py": "meetings",
    "repository/lakefs/test_bad_dumps.py": "meetings",
    "repository/lakefs/test_crashes.py": "meetings",
    "repository/test_meetings.py": "meetings",
    "repository/transfer/test_patterns_against_git.py": "meetings",
    "repository/undo/test_law.py": "meetings",
    "stores/test_hostile_servers.py": "meetings",
    "gc/test_crashes.py": "meetings",
    "gc/test_forged.py": "meetings",
    "gc/test_interleaving.py": "meetings",
    "gc/test_kills.py": "meetings",
    "gc/test_lakefs.py": "meetings",
    "gc/test_ways_in.py": "meetings",
    "imports/test_bounds.py": "meetings",
    "imports/test_killed.py": "meetings",
    "imports/test_tree_parts.py": "meetings",
    "repository/lakefs/test_update.py": "meetings",
    "repository/test_crashes.py": "meetings",
    "repository/test_durability.py": "meetings",
    "repository/staged/test_clean_moves.py": "meetings",
    "repository/sharing/test_under_way.py": "meetings",
    "repository/sharing/test_unpack.py": "meetings",
    "repository/sharing/test_crashes.py": "meetings",
    "repository/sharing/test_automatic_crashes.py": "meetings",
    "repository/undo/test_all_or_nothing.py": "meetings",
    "repository/undo/test_crashes.py": "meetings",
    "sstable/test_damage.py": "meetings",
    "worktree/test_crashes.py": "meetings",
    "worktree/test_obstacles.py": "meetings",
    "test_forged.py": "meetings",
    "test_fuzz.py": "meetings",
    "mutants": "quality",
    "native": "quality",
    "test_imports.py": "quality",
    "test_quality.py": "quality",
}
"""The marker of each test in a directory or file.

The short run does not import these: what they need may not be installed.
"""

LOWEST = {
    "cli/commands/test_commit.py",
    "cli/commands/test_config.py",
    "cli/commands/test_fs_upload.py",
    "cli/commands/test_merge.py",
    "committed/test_trees_of_lakefs.py",
    "committed/test_live_namespace.py",
    "filesystem/test_system.py",
    "remote/test_packs.py",
    "sstable/test_golden.py",
    "sstable/test_lakefs_files.py",
}
"""Files whose tests are marked `lowest`, too.

With ``-m lowest`` no other file is imported: the lowest versions are installed without the rest.
"""


NIGHTLY: tuple[str, ...] = (
    "cli/commands/test_diff.py::test_spark_",
    "cli/commands/test_fs_presign_pages.py::test_a_large_file_goes_on",
    "cli/commands/test_fs_presign_pages.py::test_pages_fit_their_width",
    "cli/commands/test_fs_presign_pages.py::test_what_was_sent",
    "cli/manual/test_examples.py::test_the_commands_of_every_page_run[clouds]",
    "cli/manual/test_examples.py::test_the_commands_of_every_page_run[handoff]",
    "cli/manual/test_examples.py::test_the_commands_of_every_page_run[policy]",
    "cli/manual/test_examples.py::test_the_commands_of_every_page_run[remotes]",
    "cli/manual/test_examples.py::test_the_commands_of_every_page_run[tutorial]",
    "cli/test_accounts.py::test_two_servers_are_used_at_once",
    "cli/test_bucket_policy.py::test_no_command_moves",
    "engine/test_working_directory.py::test_nothing_of_the_current_directory_runs",
    "exports/test_buckets.py::test_large_objects",
    "exports/test_buckets.py::test_objects_are_served",
    "exports/test_runners.py::test_dead_executors",
    "filesystem/test_libraries.py::test_dask_in_processes",
    "fsck/test_runners.py::test_the_same_findings[spark]",
    "gc/test_lakefs.py::test_a_forged_confirmation",
    "gc/test_lakefs.py::test_in_a_copy",
    "gc/test_protocol.py::test_each_rule_is_needed",
    "gc/test_spark_live_set.py::test_a_damaged_list",
    "gc/test_spark_live_set.py::test_a_python_that_dies",
    "gc/test_spark_live_set.py::test_a_sweep_that_was_taken_over",
    "gc/test_spark_live_set.py::test_of_two",
    "gc/test_spark_live_set.py::test_spark_condemns_and_deletes_the_same",
    "imports/test_spark.py::test_an_interrupted_import",
    "imports/test_spark.py::test_every_runner_lists",
    "imports/test_tree_parts.py::test_parts_join",
    "meetings/test_due.py::test_a_collection_runs",
    "meetings/test_import_spark.py",
    "meetings/test_matrix.py::test_a_sample_of_meetings_has_the_outcome_of_a_serial_order[due-manual]",
    "meetings/test_matrix.py::test_a_sample_of_meetings_has_the_outcome_of_a_serial_order[staged-manual]",
    "meetings/test_matrix.py::test_meetings_that_are_left_out",
    "meetings/test_matrix_nightly.py",
    "meetings/test_nothing.py::test_what_a_second_run",
    "meetings/test_team.py::test_a_short_life",
    "meetings/test_undo.py::test_undo_takes_back",
    "protocol/test_protocol.py::test_every_fault_of_every_request[Spills]",
    "protocol/test_protocol.py::test_every_fault_of_every_request[Sweeps]",
    "protocol/test_protocol.py::test_every_fault_of_every_request[Uses]",
    "repository/lakefs/test_crashes.py::test_a_clone_that_is_killed",
    "repository/policy/test_random_teams.py",
    "repository/test_meetings.py",
    "repository/transfer/test_killed.py::test_a_killed_upload_to_azure",
    "repository/transfer/test_killed.py::test_a_killed_upload_to_gcs",
    "repository/transfer/test_memory.py",
    "serving/page/test_browser.py::test_every_link",
    "serving/page/test_browser.py::test_pages_fit",
    "spark/test_data_source.py::test_a_branch_at_a_date",
    "spark/test_examples.py::test_a_batch_that_is_repeated",
    "spark/test_examples.py::test_what_a_repository_holds",
    "spark/test_many_writers.py::test_types_merge",
    "spark/test_shapes.py",
    "spark/test_table_reading.py::test_parquet_in_many",
    "spark/test_table_reading.py::test_text_reads",
    "spark/test_write.py::test_a_write_without_rows",
    "spark/test_write.py::test_filters_find",
    "spark/test_write.py::test_text_in_a_cell",
)
"""The beginnings of the names of long tests, below tests/, that run each night only.

What each of them shows is shown by a shorter test, too: in process instead of on Spark, by another
store, with a smaller sample.
"""


@cache
def _name_of(path: Path) -> str:
    """Return the name of a directory or file inside of tests/."""
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""


@cache
def _place_of(path: Path) -> str | None:
    """Return the marker of a directory or file in `PLACES`, or of what is in one."""
    names = map(_name_of, (path, *path.parents))
    return next((PLACES[name] for name in names if name in PLACES), None)


def _is_short(config: pytest.Config) -> bool:
    """Return whether neither -m nor a path asks for certain tests."""
    return not config.option.markexpr and config.args_source is pytest.Config.ArgsSource.TESTPATHS


def pytest_collection(session: pytest.Session) -> None:
    """Import the tests of the short run from the end in the second worker.

    In a fresh clone pytest compiles them, so each worker compiles half of them.
    """
    worker = getattr(session.config, "workerinput", {"workerid": ""})["workerid"]
    if worker == "gw1" and _is_short(session.config):
        for path in sorted(TESTS.rglob("test_*.py"), reverse=True):
            if _place_of(path) is None:
                import_module(f"tests.{_name_of(path)[:-3].replace('/', '.')}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave places of the long run out of the short one, and what is not in `LOWEST` out of it."""
    if config.option.markexpr == "lowest":
        wanted = any((TESTS / name).is_relative_to(collection_path) for name in LOWEST)
        return None if wanted else True
    return True if _is_short(config) and _place_of(collection_path) else None


def _marker_of(item: pytest.Item) -> str | None:
    """Return the marker that a test gets; ``None`` if it belongs to the short run."""
    marker = _place_of(item.path)
    if marker is not None or _name_of(item.path) in SHORT:
        return marker
    group = item.get_closest_marker("xdist_group")
    if group is not None and group.args == ("spark",):
        return "spark"
    if SERVERS.intersection(getattr(item, "fixturenames", ())):
        return "servers"
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of the long run; leave them out unless -m or a path asks for them.

    Nightly tests run only where -m selects them.
    """
    for item in items:
        marker = _marker_of(item)
        if marker is not None:
            item.add_marker(marker)
        if item.nodeid.removeprefix("tests/").startswith(NIGHTLY):
            item.add_marker("nightly")
        if _name_of(item.path) in LOWEST:
            item.add_marker("lowest")
    if config.option.markexpr == "lowest":
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
    if config.option.markexpr:
        return
    left_out = {"nightly"} | (LONG.keys() if _is_short(config) else set())
    left = {item for item in items if any(item.get_closest_marker(name) for name in left_out)}
    if not left:
        return
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]
    counted = Counter(
        next(name for name in ("nightly", *LONG) if item.get_closest_marker(name)) for item in left
    )
    config.stash[_LEFT] = counted
    if hasattr(config, "workeroutput"):  # a worker of pytest-xdist, which prints nothing
        config.workeroutput["left"] = dict(counted)


_LEFT = pytest.StashKey[Counter[str]]()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker left out; all workers collect the same tests."""
    node.config.stash[_LEFT] = Counter(getattr(node, "workeroutput", {}).get("left", {}))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what this run left out."""
    left = config.stash.get(_LEFT, None)
    if left and _is_short(config):
        found = ", ".join(f"{count:,} {name}" for name, count in sorted(left.items()))
        terminalreporter.write_line(
            f"Left to the long run: {found}; and all in {', '.join(PLACES)} of tests/. "
            f"To run them: pytest -m '({' or '.join(LONG)}) and not nightly'"
        )
