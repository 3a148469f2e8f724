from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import (
    EMPTY_TREE,
    Branch,
    Commit,
    CommitId,
    MetarangeId,
    RefKind,
    StagingToken,
    Tag,
)
from lakecli.errors import IntegrityError, NotFound, UsageError
from lakecli.kv import operations
from lakecli.kv.local_store import LocalStore, Table
from lakecli.kv.operations import Operation, RefChange
from lakecli.refs.ref_store import MAX_NAME_SIZE, RefStore
from tests.support.stores import get_branch, scratch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.refs.resolve import RefReader

REPOSITORY = b"r" * 16
OTHER = b"r" * 15 + b"s"
FIRST = CommitId("0a" * 32)
SECOND = CommitId("0b" * 32)
MAIN = Branch("main", FIRST, StagingToken(b"t" * 16))

commit_ids = st.binary(min_size=32, max_size=32).map(lambda raw: CommitId(raw.hex()))
# What cannot be decoded comes in as one of the surrogates of `os.fsdecode`.
texts = st.text(
    st.characters(codec="utf-8") | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF),
    max_size=20,
)
names = st.from_regex(r"\A\w[-\w:]{0,4}\Z") | st.text(
    st.characters(categories=["L", "N"]), min_size=1, max_size=3
)
commits = st.builds(
    Commit,
    id=commit_ids,
    parents=st.lists(commit_ids, max_size=3).map(tuple),
    metarange_id=st.just(EMPTY_TREE) | commit_ids.map(MetarangeId),
    message=texts,
    committer=texts,
    created_at=st.integers(-(2**33), 2**37).map(lambda at: datetime.fromtimestamp(at, UTC)),
    metadata=st.dictionaries(texts, texts, max_size=3),
    generation=st.integers(1, 2**40),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    with LocalStore.open(tmp_path_factory.mktemp("store")) as opened:
        yield opened


def test_it_reads_as_refs_are_read(store: LocalStore) -> None:
    with store.read() as txn:
        reader: RefReader = RefStore(txn, REPOSITORY)
        assert reader.find_branch("main") is None
        assert reader.find_tag("v1") is None
        assert reader.find_commit(FIRST) is None
        assert list(reader.iter_commit_ids("")) == []


class TestBranches:
    def test_a_branch_comes_back_as_it_was(self, store: LocalStore) -> None:
        branch = MAIN._replace(sealed_tokens=(StagingToken(b"2" * 16), StagingToken(b"1" * 16)))
        with scratch(store) as txn:
            refs = RefStore(txn, REPOSITORY)
            refs.put_branch(branch)
            assert refs.find_branch("main") == branch
            assert RefStore(txn, OTHER).find_branch("main") is None
            assert refs.delete_branch("main")
            assert not refs.delete_branch("main")
            assert refs.find_branch("main") is None

    def test_a_missing_name_is_not_found(self, store: LocalStore) -> None:
        with scratch(store) as txn:
            refs = RefStore(txn, REPOSITORY)
            assert refs.find_branch("dev") is None
            assert refs.find_branch("") is None
            assert refs.find_branch("x" * 5000) is None
            assert not refs.delete_branch("x" * 5000)

    @given(st.sets(names, max_size=12), names, st.text("mdev:1", max_size=2))
    def test_they_are_listed_by_the_bytes_of_their_names(
        self, store: LocalStore, present: set[str], after: str, prefix: str
    ) -> None:
        with scratch(store) as txn:
            refs = RefStore(txn, REPOSITORY)
            RefStore(txn, OTHER).put_branch(MAIN)
            for name in present:
                refs.put_branch(MAIN._replace(name=name))
            ordered = sorted(present, key=str.encode)
            assert [branch.name for branch in refs.iter_branches()] == ordered
            found = [branch.name for branch in refs.iter_branches(prefix=prefix, after=after)]
            assert found == [
                name
                for name in ordered
                if name.startswith(prefix) and name.encode() > after.encode()
            ]

    def test_a_name_too_long_for_a_key(self, store: LocalStore) -> None:
        longest = MAIN._replace(name="x" * MAX_NAME_SIZE)
        with scratch(store) as txn:
            refs = RefStore(txn, REPOSITORY)
            refs.put_branch(longest)
            assert list(refs.iter_branches()) == [longest]
            assert list(refs.iter_branches(after=longest.name + "x")) == []
            assert list(refs.iter_branches(prefix=longest.name + "x")) == []
            with pytest.raises(UsageError, match="name of 495 bytes"):
                refs.put_branch(MAIN._replace(name=longest.name + "x"))

    def test_fields_of_a_later_version_are_kept(self, store: LocalStore) -> None:
        with scratch(store) as txn:
            refs = RefStore(txn, REPOSITORY)
            refs.put_branch(MAIN)
            key = REPOSITORY + b"main"
            fields = json.loads(txn.get(Table.BRANCHES, key) or b"")
            txn.put(Table.BRANCHES, key, json.dumps(fields | {"upstream": [1]}).encode())
            refs.put_branch(MAIN._replace(commit_id=SECOND))
            assert get_branch(refs, "main").commit_id == SECOND
            assert json.loads(txn.get(Table.BRANCHES, key) or b"")["upstream"] == [1]

    @pytest.mark.parametrize(
        "data", [b"", b"{", b"[]", b"{}", b"1", b'{"commit_id":1,"staging_token":2}', b"\xff"]
    )
    def test_a_record_that_makes_no_sense(self, store: LocalStore, data: bytes) -> None:
        with scratch(store) as txn:
            refs = RefStore(txn, REPOSITORY)
            txn.put(Table.BRANCHES, REPOSITORY + b"main", data)
            txn.put(Table.TAGS, REPOSITORY + b"v1", data)
            txn.put(Table.COMMITS, REPOSITORY + bytes.fromhex(FIRST), data)
            with pytest.raises(IntegrityError, match="main"):
                refs.find_branch("main")
            if b"commit_id" not in data:
                with pytest.raises(IntegrityError, match="v1"):
                    refs.find_tag("v1")
            with pytest.raises(IntegrityError, match=FIRST):
                refs.find_commit(FIRST)

    def test_writing_needs_a_write_transaction(self, store: LocalStore) -> None:
        with store.read() as txn, pytest.raises(TypeError, match="write transaction"):
            RefStore(txn, REPOSITORY).put_branch(MAIN)


class TestTags:
    def test_a_tag_comes_back_as_it_was(self, store: LocalStore) -> None:
        with scratch(store) as txn:
            refs = RefStore(txn, REPOSITORY)
            tags = [Tag("v1.0", FIRST), Tag("v1:1", SECOND), Tag("über", FIRST)]
            for tag in reversed(tags):
                refs.put_tag(tag)
            assert list(refs.iter_tags()) == tags
            assert list(refs.iter_tags(prefix="v", after="v1.0")) == [tags[1]]
            assert refs.find_tag("über") == tags[2]
            assert refs.delete_tag("v1.0")
            assert not refs.delete_tag("v1.0")
            assert refs.find_tag("v1.0") is None


class TestCommits:
    @given(commits)
    def test_a_commit_comes_back_as_it_was(self, store: LocalStore, commit: Commit) -> None:
        with scratch(store) as txn:
            refs = RefStore(txn, REPOSITORY)
            refs.put_commit(commit)
            assert refs.get_commit(commit.id) == refs.find_commit(commit.id) == commit
            assert list(refs.iter_commits()) == [commit]
            assert RefStore(txn, OTHER).find_commit(commit.id) is None

    @pytest.mark.parametrize("id", ["", "0a", "x" * 64, "0A" * 32, "0a" * 33])
    def test_a_malformed_commit_id_finds_nothing(self, store: LocalStore, id: str) -> None:
        with pytest.raises(IntegrityError):
            CommitId(id)
        with scratch(store) as txn:
            refs = RefStore(txn, REPOSITORY)
            assert refs.find_commit(cast("CommitId", id)) is None
            with pytest.raises(NotFound, match="no commit"):
                refs.get_commit(cast("CommitId", id))

    @given(
        st.sets(st.text("0f", min_size=3, max_size=3), max_size=8),
        st.text("0f", max_size=4) | st.sampled_from(["0F", "0 ", "zz", "0" * 65]),
    )
    def test_prefixes(self, store: LocalStore, heads: set[str], prefix: str) -> None:
        ids = sorted(CommitId(head + "7" * 61) for head in heads)
        with scratch(store) as txn:
            refs = RefStore(txn, REPOSITORY)
            for each in ids:
                txn.put(Table.COMMITS, REPOSITORY + bytes.fromhex(each), b"")
            txn.put(Table.COMMITS, OTHER + bytes.fromhex(FIRST), b"")
            found = list(refs.iter_commit_ids(prefix))
            assert found == [each for each in ids if each.startswith(prefix)]


def test_an_operation_takes_refs_back(store: LocalStore) -> None:
    before = MAIN._replace(sealed_tokens=(StagingToken(b"s" * 16),))
    after = Branch("main", SECOND, StagingToken(b"u" * 16))

    def fields(branch: Branch) -> dict[str, object]:
        return {
            "commit_id": branch.commit_id,
            "staging_token": branch.staging_token.hex(),
            "sealed_tokens": [token.hex() for token in branch.sealed_tokens],
        }

    with scratch(store) as txn:
        refs = RefStore(txn, REPOSITORY)
        refs.put_branch(before)
        refs.put_branch(after)
        refs.put_tag(Tag("v1", SECOND))
        operation = operations.append(
            txn,
            Operation(
                id=b"o" * 16,
                repository=REPOSITORY,
                at=datetime(2026, 1, 1, tzinfo=UTC),
                command="",
                kind="commit",
                refs=(
                    RefChange(RefKind.BRANCH, "main", before=fields(before), after=fields(after)),
                    RefChange(RefKind.TAG, "v1", before=None, after={"commit_id": SECOND}),
                ),
                sealed=before.sealed_tokens,
            ),
        )
        branch_change, tag_change = operations.get(txn, REPOSITORY, operation.id).refs
        old = branch_change.before
        assert old is not None
        refs.put_branch(
            Branch(
                branch_change.name,
                old["commit_id"],
                StagingToken(bytes.fromhex(old["staging_token"])),
                tuple(StagingToken(bytes.fromhex(token)) for token in old["sealed_tokens"]),
            )
        )
        assert tag_change.before is None
        refs.delete_tag(tag_change.name)
        assert get_branch(refs, "main") == before
        assert list(refs.iter_tags()) == []


def test_listing_branches_imports_little(tmp_path: Path) -> None:
    code = """
        import sys
        from pathlib import Path
        from lakecli.kv.local_store import LocalStore
        from lakecli.refs.ref_store import RefStore
        with LocalStore.open(Path(sys.argv[1])) as store, store.read() as txn:
            list(RefStore(txn, bytes(16)).iter_branches())
        unwanted = {"blake3", "google.protobuf", "hashlib", "cramjam", "google_crc32c", "boto3"}
        print(*sorted(unwanted & set(sys.modules)))
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == ""
