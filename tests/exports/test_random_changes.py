"""For random commits and exports, the destination has the exported objects at the end."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from lakecli.engine.runner import LocalRunner
from lakecli.errors import NothingToDo
from lakecli.exports.run import ExportOptions, export
from tests.exports.test_export import files, put
from tests.support.lakes import make_repository, open_lake

paths = st.sampled_from(
    [b"a", b"a/b", b"a/b/c", b"a/b-", b"a-", b"d/_SUCCESS", b"d/e", b"_SUCCESS", b"f", b"g/h"]
)
Changes = dict[bytes, bytes | None]

values: st.SearchStrategy[bytes | None] = st.sampled_from([None, b"", b"1", b"2"])
steps: st.SearchStrategy[list[tuple[Changes, bool]]] = st.lists(
    st.tuples(st.dictionaries(paths, values, max_size=6), st.booleans()), min_size=1, max_size=4
)


def conflicts(contents: dict[bytes, bytes]) -> bool:
    """Whether a directory cannot contain all paths: one is a directory of another."""
    return any(other.startswith(path + b"/") for path in contents for other in contents)


@given(steps)
def test_incremental_exports(wanted: list[tuple[Changes, bool]]) -> None:
    with TemporaryDirectory() as folder, open_lake(Path(folder)) as lake:
        repository = make_repository(lake, Path(folder))
        target = Path(folder) / "out"
        contents: dict[bytes, bytes] = {}
        exported = ""
        first: tuple[Changes, bool] = ({b"z": b""}, True)
        for number, (changes, is_exported) in enumerate([first, *wanted]):
            merged = {**contents, **changes}
            after = {path: data for path, data in merged.items() if data is not None}
            if conflicts(after):
                continue
            try:
                put(repository, changes, str(number))
            except NothingToDo:
                continue
            contents = after
            if not is_exported:
                continue
            report = export(
                repository,
                "main",
                b"",
                str(target),
                runner=LocalRunner(),
                options=ExportOptions(since=exported, threads=1),
            )
            assert report.outcome.failures == []
            exported = report.commit_id
            assert files(target) == {
                path: data for path, data in contents.items() if path != b"_SUCCESS"
            }
            assert (target / "_SUCCESS").read_bytes() == contents.get(b"_SUCCESS", b"")
