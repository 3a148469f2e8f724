"""The critical modules, and the tests that must detect the mutants of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "lakecli"


@dataclass(frozen=True, slots=True)
class Suite:
    """Modules and their tests.

    Attributes:
        title: the capability.
        modules: below `lakecli`.
        tests: files below `tests`, or single tests of them; the fastest first, as the first failure
            ends a mutant's run.
    """

    title: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]


SUITES = (
    Suite(
        "garbage collection",
        (
            "pipeline/gc/roots.py",
            "pipeline/gc/positions.py",
            "pipeline/gc/own.py",
            "pipeline/gc/mark.py",
            "pipeline/gc/reach.py",
            "pipeline/gc/marks.py",
            "pipeline/gc/sweep.py",
            "pipeline/gc/lease.py",
            "pipeline/gc/rules.py",
            "pipeline/gc/packs.py",
            "pipeline/gc/run.py",
            "remote/collection.py",
        ),
        (
            "remote/test_collection.py",
            "pipeline/gc/test_marks.py",
            "pipeline/gc/test_mark.py",
            "pipeline/gc/test_rules.py",
            "pipeline/gc/test_packs.py",
            "pipeline/gc/test_positions.py",
            "pipeline/gc/test_own.py",
            "pipeline/gc/test_reports.py",
            "pipeline/gc/test_run.py",
            "pipeline/gc/test_roots.py",
            "pipeline/gc/test_dates.py",
            "pipeline/gc/test_lease.py",
            "pipeline/gc/test_gc.py",
            "pipeline/gc/test_forged.py",
            "pipeline/gc/test_ways_in.py",
            "pipeline/gc/test_dumps.py",
            "pipeline/gc/test_lakefs.py",
            "pipeline/gc/test_crashes.py",
            "pipeline/gc/test_interleaving.py",
            "pipeline/gc/test_runners.py::test_each_distinct_range_is_read_once",
            "pipeline/gc/test_runners.py::test_a_large_namespace_is_listed_in_parts",
            "pipeline/gc/test_runners.py::test_a_set_of_digests_on_disk",
            "remote/test_packs.py",
        ),
    ),
    Suite(
        "comparing listings with what is in use",
        (
            "pipeline/gc/compare.py",
            "pipeline/gc/join_tasks.py",
            "pipeline/gc/joined.py",
            "pipeline/gc/lakefs.py",
        ),
        (
            "pipeline/gc/test_joined.py::test_without_the_right_to_write_the_set_is_here",
            "pipeline/gc/test_joined.py::test_rows_become_records_again",
            "pipeline/gc/test_joined.py::test_digests_are_read_whole_or_not_at_all",
            "pipeline/gc/test_joined.py::test_tasks_are_sized_by_bytes",
            "pipeline/gc/test_joined_here.py",
            "pipeline/gc/test_lakefs.py",
            "pipeline/gc/test_runners.py::test_a_large_namespace_is_listed_in_parts",
        ),
    ),
    Suite(
        "use of collected objects",
        ("repository/core/gc_guard.py", "repository/core/gate.py"),
        (
            "repository/test_reuse.py",
            "repository/test_gate.py",
            "repository/test_under_way.py",
            "repository/test_upload.py",
            "repository/test_op_undo.py",
            "repository/lakefs/test_restore.py",
            "pipeline/gc/test_ways_in.py",
            "pipeline/gc/test_gc.py",
            "pipeline/gc/test_lease.py",
            "pipeline/gc/test_forged.py",
        ),
    ),
    Suite(
        "moving a branch",
        (
            "repository/core/transaction.py",
            "repository/core/mover.py",
            "repository/core/landing.py",
            "repository/core/clean.py",
            "repository/commit.py",
            "repository/merge.py",
            "repository/cherry_pick.py",
            "repository/revert.py",
            "repository/core/apply_change.py",
            "repository/core/staging_tokens.py",
            "repository/core/under_way.py",
        ),
        (
            "repository/test_unsent.py",
            "repository/test_intents.py",
            "repository/test_clean_moves.py",
            "repository/test_under_way.py",
            "repository/test_pushes_under_way.py",
            "repository/test_landing.py",
            "repository/test_commit.py",
            "repository/test_partial_commit.py",
            "repository/test_merge.py",
            "repository/lakefs/test_compare_contents.py",
            "repository/test_op_undo.py",
            "repository/test_overtaken.py",
            "repository/test_housekeeping.py",
            "repository/test_meetings.py",
        ),
    ),
    Suite(
        "sync",
        (
            "repository/sharing/mover.py",
            "repository/sharing/notes.py",
            "repository/sharing/follow.py",
            "repository/core/unsent.py",
            "repository/sharing/publish.py",
            "repository/core/intents.py",
        ),
        (
            "repository/test_unsent.py",
            "repository/test_intents.py",
            "repository/test_clean_moves.py",
            "repository/test_sync.py",
            "repository/test_sync_owners.py",
            "repository/test_undo_whole.py",
            "repository/test_publish.py",
            "repository/test_rollback.py",
            "repository/test_push.py",
            "repository/test_pull.py",
            "repository/test_fetch.py",
            "repository/test_landing.py",
            "repository/test_partial_commit.py",
            "repository/test_under_way.py",
            "repository/test_pushes_under_way.py",
            "repository/test_sync_races.py",
            "repository/test_share.py",
            "repository/test_sharing.py",
        ),
    ),
    Suite(
        "refs in the bucket",
        ("remote/move.py",),
        (
            "remote/test_move.py",
            "remote/test_reflog.py",
            "remote/test_move_law.py",
            "remote/test_refs.py",
            "remote/test_races.py",
            "repository/test_publish.py",
            "repository/test_reflog.py",
        ),
    ),
    Suite(
        "S3",
        (
            "objectstore/s3/direct.py",
            "objectstore/s3/plain.py",
            "objectstore/s3/multipart.py",
            "objectstore/s3/store.py",
        ),
        (
            "objectstore/test_s3_plain.py",
            "objectstore/test_s3_errors.py",
            "objectstore/test_s3_direct.py",
            "objectstore/test_s3.py",
            "objectstore/test_versions.py",
            "objectstore/test_capabilities.py",
        ),
    ),
    Suite(
        "directories as stores",
        (
            "objectstore/local/batch.py",
            "objectstore/local/directory.py",
            "objectstore/local/files.py",
            "objectstore/local/staging_dirs.py",
            "objectstore/local/leftovers.py",
            "objectstore/local/store.py",
        ),
        (
            "objectstore/test_staging_dirs.py",
            "objectstore/test_leftovers.py",
            "objectstore/test_local.py",
            "repository/test_ingest.py",
        ),
    ),
    Suite(
        "tables",
        ("sstable/reader.py", "sstable/block.py"),
        (
            "sstable/test_block.py",
            "sstable/test_roundtrip.py",
            "sstable/test_damage.py",
            "sstable/test_golden.py",
            "sstable/test_writer.py",
            "sstable/test_lakefs_files.py",
            "committed/test_damage.py",
            "committed/test_foreign.py",
            "committed/test_points.py",
        ),
    ),
    Suite(
        "point reads",
        ("committed/points.py",),
        (
            "committed/test_points.py",
            "committed/test_threads.py",
            "committed/test_damage.py",
            "committed/test_cache.py",
            "committed/test_cost.py",
            "committed/test_foreign.py",
        ),
    ),
    Suite(
        "the local store",
        ("kv/environment.py",),
        (
            "kv/test_env.py",
            "kv/test_pages.py",
            "kv/test_paths.py",
            "kv/test_mounts.py",
            "kv/test_operations.py",
            "kv/test_processes.py",
            "repository/test_durability.py",
            "repository/test_open.py",
        ),
    ),
    Suite(
        "validation",
        ("validation.py", "ids.py"),
        (
            "test_validation.py",
            "test_ids.py",
        ),
    ),
)
