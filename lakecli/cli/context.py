"""The context of a command: settings, lake, clock and output, each created on first use."""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from io import BytesIO, TextIOWrapper
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from lakecli.base.progress import ignore_step
from lakecli.base.uri import LakeUri
from lakecli.cli.line import BOOLEANS, Globals, without_secrets
from lakecli.cli.out.output import Output
from lakecli.cli.tree import READS
from lakecli.errors import NotFound, Refused, Unreachable, UsageError, without_passwords
from lakecli.settings.home import HomePaths, chosen_home, from_here, home_paths, read_file
from lakecli.stores.uri import is_local

if TYPE_CHECKING:
    from lakecli.cli.out.logs import Logs
    from lakecli.repository.contract import FinishedMove, Repository
    from lakecli.repository.handle.lake import Lake
    from lakecli.repository.runtime import GivenLater, Home, Runtime
    from lakecli.repository.sharing.automatic import SharedMover
    from lakecli.settings.lakectl import LakectlFile
    from lakecli.settings.settings import Settings

LAKECTL_SUFFIXES: Final = (".yaml", ".yml")
"""The suffixes by which ``--config`` recognizes lakectl's files; lakecli's own are TOML files."""

HOOK_VARIABLE: Final = "LAKECLI_HOOK"
"""The variable that is set for hooks; if it is set, lakecli calls no hooks, to avoid recursion."""

LOCAL_WORKERS: Final = 2
"""The number of concurrent transfers to a local store: one thread hashes while another waits for
the disk."""

_MAX_COMMAND = 500
"""The maximum number of characters of the command line in the operation log."""


def system_now() -> datetime:
    """Return the current time by the clock of the machine, in UTC."""
    return datetime.now(UTC)  # noqa: TID251 - other code gets this clock as an argument


def random_id() -> bytes:
    """Return 16 random bytes."""
    return os.urandom(16)


class Environment(NamedTuple):
    """The environment of a run: streams, variables, clock and random IDs; tests pass fakes.

    Attributes:
        stdin: the stream for answers to questions, and for the data of the source ``-``.
        new_id: a function that returns 16 random bytes.
        interrupts: a sequence with one item for each interrupt so far.
        on_step: a function that is called before each step of a protocol, with the step's name.
    """

    environ: Mapping[str, str]
    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    now: Callable[[], datetime] = system_now
    new_id: Callable[[], bytes] = random_id
    interrupts: Sequence[None] = ()
    on_step: Callable[[str], None] = ignore_step


class Context:
    """The context of one run of a command: its settings, lake, clock and output.

    Attributes:
        began: the time when the run began.
        verbose: whether debug messages and tracebacks are shown.
        command: the words of the command, such as ``branch list``.
        skips_hooks: whether ``--no-verify`` was given, which skips the hooks of this machine.
        logs: the log of the run; ``None`` without a log.
    """

    command = ""
    skips_hooks = False

    def __init__(
        self,
        environment: Environment,
        given: Globals,
        argv: Sequence[str] = (),
        *,
        run_within: Callable[[Sequence[str], Environment, Globals], int] | None = None,
    ) -> None:
        self._environment = environment
        self._given = given
        self._argv = argv
        self._run_within = run_within
        self._lake: Lake | None = None
        self._repositories: list[Repository] = []
        self._answers: list[GivenLater] = []
        self._remotes: dict[str, Repository] = {}
        self.logs: Logs | None = None
        self.environ = environment.environ
        self.stdin = environment.stdin
        self.verbose = given.verbose
        self.began = environment.now()
        self.out = Output(
            environment.stdout,
            environment.stderr,
            json=given.json,
            quiet=given.quiet,
            color=not given.no_color and environment.environ.get("NO_COLOR", "") in ("", "0"),
            interactive=BOOLEANS.get(environment.environ.get("LAKECTL_INTERACTIVE", "")),
            whole=given.no_trunc,
            columns=environment.environ.get("COLUMNS", ""),
            pager=None if given.no_pager else environment.environ,
        )

    # -- settings ----------------------------------------------------------------------------

    @cached_property
    def home(self) -> HomePaths:
        """The paths of the configuration file, the local store and the cache."""
        return home_paths(chosen_home(None, self.environ), self.environ)

    @cached_property
    def config_file(self) -> str:
        """The configuration file: ``--config``, or by default the file in the home."""
        given = self._given.config
        if given is None or given.endswith(LAKECTL_SUFFIXES):
            return self.home.config
        return from_here(given)

    @cached_property
    def lakectl_file(self) -> str | None:
        """A configuration file of lakectl: ``--config``, or by default ``LAKECTL_CONFIG_FILE``."""
        given = self._given.config
        if given is None:
            given = self.environ.get("LAKECTL_CONFIG_FILE", "")
        elif not given.endswith(LAKECTL_SUFFIXES):
            return None
        return from_here(given) if given else None

    @cached_property
    def lakectl(self) -> "LakectlFile":
        """The contents of lakectl's configuration file; empty if there is no such file."""
        from lakecli.settings.lakectl import LakectlFile, read_lakectl_file

        if self.lakectl_file is None:
            return LakectlFile({}, ())
        return read_lakectl_file(self.lakectl_file, required=self._given.config is not None)

    def ignored_of_lakectl(self) -> Iterator[str]:
        """Yield a line for each setting of lakectl that has no effect, with the reason."""
        from lakecli.settings.lakectl import ignored_variables, reason

        for name in ignored_variables(self.environ):
            yield f"{name} is ignored: {reason(name.partition('_')[2])}"
        for name in self.lakectl.ignored:
            yield f"{name} in {self.lakectl_file} is ignored: {reason(name)}"

    @cached_property
    def settings(self) -> "Settings":
        """All settings; flags have precedence over the environment, files and defaults."""
        from lakecli.settings.settings import Settings

        flags = {} if self._given.base_uri is None else {"base_uri": self._given.base_uri}
        return Settings(
            flags=flags,
            environ=self.environ,
            read_file=self._read_config_file,
            file=self.config_file,
            read_lakectl=None if self.lakectl_file is None else lambda: self.lakectl.values,
            lakectl_file=self.lakectl_file,
        )

    def _read_config_file(self) -> Mapping[str, str]:
        given = self._given.config
        required = given is not None and not given.endswith(LAKECTL_SUFFIXES)
        if not required and not os.path.exists(self.config_file):
            return {}
        return read_file(self.config_file, required=required)

    @property
    def base_uri(self) -> str:
        """The prefix of URIs that do not begin with ``lakefs://``; may be empty."""
        return self.settings.base_uri

    def committer(self) -> str:
        """Return the committer as ``Name <email>``: from the settings, else Git, else user@host."""
        from lakecli.settings.settings import committer

        return committer(self.settings, self.environ)

    # -- the environment ---------------------------------------------------------------------------

    def now(self) -> datetime:
        """Return the current time, an aware UTC datetime."""
        return self._environment.now()

    def new_id(self) -> bytes:
        """Return 16 random bytes."""
        return self._environment.new_id()

    def parallelism(self, repository: "Repository", asked: int | None) -> int:
        """Return the number of concurrent transfers: `asked`, or by default the setting.

        For a local store, the setting is limited to `LOCAL_WORKERS`.
        """
        if asked is not None:
            return asked
        configured = self.settings.transfer_parallelism
        is_here = is_local(repository.record.storage_namespace)
        return min(configured, LOCAL_WORKERS) if is_here else configured

    def lake(self) -> "Lake":
        """Return the lake, which is the set of repositories of this home.

        The first call opens the lake, and the end of the run closes it.

        Raises:
            PermissionDenied: the home cannot be written.
            Refused: the store is newer than this lakecli, or is on a network file system.
        """
        if self._lake is None:
            from lakecli.repository.handle.lake import Lake

            self._lake = Lake.open(self.lake_home(), self.runtime)
        return self._lake

    def lake_home(self) -> "Home":
        """Return the paths of the lake's directories, which may not exist."""
        from lakecli.repository.runtime import Home

        return Home(self.home.store, self.home.cache, *self.settings.cache_sizes)

    @cached_property
    def runtime(self) -> "Runtime":
        """The clock, the random IDs and the stores of this run."""
        from lakecli.repository.runtime import Runtime

        environment = self._environment
        return Runtime(
            environment.now,
            environment.new_id,
            self._command_line(),
            environment.on_step if self.logs is None else self.logs.steps(environment.on_step),
            trusted=self.settings.trusted,
            show_rebuild=lambda entries: self.out.progress("rebuild", items=entries),
            account=self.settings.account,
            on_answer=self._answers.append,
        )

    def repository(self, uri: LakeUri, *others: LakeUri, at_op: str = "") -> "Repository":
        """Open the repository that a URI names, without contacting the bucket.

        Args:
            others: further URIs, which must name the same repository.
            at_op: the ID of an operation, to read the repository in its state right after it.

        Raises:
            UsageError: the URIs are of different repositories, or `at_op` is not an ID.
            NotFound: there is no such repository on this machine, or no such operation.
        """
        for other in others:
            if other.repository != uri.repository:
                raise UsageError(
                    f"not of the same repository: {uri} and {other}",
                    hint="objects of one repository in another one: `fs cp -r PATH DEST`",
                )
        if uri.namespace is not None:
            return self.repository_in_place(uri.namespace, at_op=at_op)
        if at_op:
            from lakecli.repository.undo.log import repository_at

            return repository_at(self.logged_repository(uri, operation=at_op), at_op)
        return self.keep(self.lake().repository(uri.repository))

    def repository_in_place(self, namespace: str, *, at_op: str = "") -> "Repository":
        """Open the repository in a storage namespace for reading without a clone; cache the result.

        Raises:
            UsageError: `at_op` is given.
            NotFound: there is no repository in that namespace.
        """
        if at_op:
            raise UsageError(
                f"--at-op needs a clone: {namespace} has no operation log",
                hint="a former state of a branch: BRANCH@{1 day ago}",
            )
        if namespace not in self._remotes:
            from lakecli.repository.open_remote import open_remote

            remote = open_remote(self.lake_home(), self.runtime, namespace)
            self._remotes[namespace] = self.keep(remote)
        return self._remotes[namespace]

    def synced_repository(self, uri: LakeUri, *others: LakeUri, at_op: str = "") -> "Repository":
        """Open the repository that a URI names; with ``sync = auto``, fetch from the bucket first.

        With ``sync = auto``, a ref that the command moves is moved in the bucket, too. With
        `at_op`, nothing is fetched, because a past state does not change. Arguments and errors are
        those of `repository`.
        """
        opened = self.repository(uri, *others, at_op=at_op)
        return opened if at_op or uri.namespace is not None else self._synced(opened)

    def logged_repository(
        self, uri: LakeUri, *, wanted: str = "", operation: str = "", syncs: bool = False
    ) -> "Repository":
        """Open the repository that a URI names, for its operation log.

        The repository may be deleted on this machine; then only its log can be used. If several
        deleted repositories had the same name, `wanted` and `operation` select one.

        Args:
            wanted: ``undo`` or ``redo`` to prefer a deleted repository with an operation that can
                be undone or redone.
            operation: the first digits of an operation's ID, to prefer the repository that has the
                operation.
            syncs: whether to fetch as `synced_repository` does. A deleted repository is not
                fetched; if the command restores it, its refs are restored in the bucket, too.

        Raises:
            NotFound: this machine never had a repository of that name.
        """
        from lakecli.repository.undo.log import logged_repository

        found = logged_repository(self.lake(), uri.repository, wanted=wanted, operation=operation)
        self.keep(found)
        return self._synced(found) if syncs else found

    def _synced(self, repository: "Repository") -> "Repository":
        """With ``sync = auto``, let a repository move refs in the bucket, and fetch; return it.

        Moves of refs that an interrupted command began are finished and reported. If the bucket
        cannot be read, a warning says so, and the command uses the state of the last fetch.
        """
        repository.mover = mover = self.mover_of(repository)
        if mover is None or not repository.is_here():
            return repository
        try:
            caught_up = mover.catch_up(repository)
        except (Unreachable, NotFound) as error:  # `NotFound`: such as a disk that is not mounted
            self.out.warn(f"cannot fetch, using the state of the last fetch: {error.message}")
            return repository
        self.tell_finished(caught_up.finished)
        for unsent in caught_up.unsent:
            self.out.warn(unsent.message, unsent.hint)
        return repository

    def mover_of(self, repository: "Repository") -> "SharedMover | None":
        """Return the object that also moves refs in the bucket when a command moves them here.

        The result is ``None`` if refs move only on this machine: without ``sync = auto``, or in a
        namespace that belongs to lakeFS, to which lakecli never writes.
        """
        if repository.record.is_borrowed or not self.settings.sync(repository.name):
            return None
        from lakecli.repository.sharing.automatic import SharedMover
        from lakecli.repository.undo.remote_undo import put_back

        return SharedMover(self.new_id(), who=self.committer, put_back=put_back)

    def tell_finished(self, finished: "Iterable[FinishedMove]") -> None:
        """Print the outcome of moves of refs in the bucket that an interrupted command began."""
        for each in finished:
            show = self.out.warn if each.state == "lost" else self.out.note
            show(each.text())

    def keep(self, repository: "Repository") -> "Repository":
        """Register a repository for `finish` and `close`, add hooks to it, and return it."""
        self._repositories.append(repository)
        self.add_hooks(repository)
        opened = {each.uri for each in self._repositories}
        self.out.repository = repository.uri if len(opened) == 1 else None
        return repository

    def add_hooks(self, repository: "Repository") -> None:
        """Let a repository call the hooks of the settings, unless a hook runs this command."""
        if self.command in READS or HOOK_VARIABLE in self.environ or not self.settings.hooks:
            return
        from lakecli.cli.programs import hook_of

        for name, words in self.settings.hooks.items():
            timeout = self.settings.timeout("hook")
            repository.hooks[name] = hook_of(words, self.environ, timeout, self.out.flush)
        repository.skips_hooks = self.skips_hooks and bool(repository.hooks)

    def finish(self) -> None:
        """Push the refs that the command moved, if ``sync = auto``; called after a success.

        Raises:
            LostRace: somebody else moved a ref first.
            OutcomeUnknown: it is unknown whether a ref was moved; the next command checks it.
            Unreachable: nothing was pushed; the next command tries again.
        """
        for repository in self._repositories:
            if repository.mover is not None:
                repository.mover.finish(repository)

    def answered(self) -> None:
        """Tell the library that the command has written its output."""
        while self._answers:
            self._answers.pop().give()

    def _command_line(self) -> str:
        """Return the command line for the operation log: shortened, and without passwords."""
        words = map(without_passwords, without_secrets(self._argv))
        return shlex.join(words)[:_MAX_COMMAND]

    def run(self, argv: Sequence[str]) -> int:
        """Run another command line in the same environment, and return its exit code.

        With ``--json`` the output of the other command is dropped, because only this command may
        write JSON. Errors of the other command are raised.
        """
        given = self._given
        flags = {"--quiet": given.quiet, "--no-color": given.no_color, "--verbose": given.verbose}
        environment = self._environment
        if given.json:
            sink = TextIOWrapper(BytesIO(), encoding="utf-8", errors="surrogateescape")
            environment = environment._replace(stdout=sink, stderr=sink)
        self.out.flush()
        settings = [] if given.config is None else ["--config", given.config]
        argv = [*(flag for flag, on in flags.items() if on), *settings, *argv]
        assert self._run_within is not None
        return self._run_within(argv, environment, Globals())

    def close(self) -> None:
        """Print the notices of all repositories and close the lake; safe to repeat."""
        for repository in self._repositories:
            for notice in repository.notices:
                self.out.warn(notice.message, notice.hint)
            repository.notices.clear()
            repository.note_reads()
            if self.logs is not None and repository.reads is not None:
                self.logs.add_reads(repository.reads)
        self._repositories.clear()
        while self._remotes:
            self._remotes.popitem()[1].lake.close()
        while self._answers:
            self._answers.pop().leave()
        if self._lake is not None:
            self._lake.close()
            self._lake = None

    # -- questions ---------------------------------------------------------------------------

    @property
    def can_ask(self) -> bool:
        """Whether lakecli can ask questions: standard input and stderr are terminals."""
        return self.stdin.isatty() and self.out.stderr_terminal

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before an action that cannot be undone, unless `yes` is true.

        Args:
            question: the action, without a question mark: ``delete repository 'r'``.
            yes: whether ``--yes`` was given.

        Raises:
            Refused: the answer is no, or there is no terminal to ask on.
        """
        if yes:
            return

        if not self.can_ask:
            raise Refused(
                f"cannot ask for confirmation without a terminal: {question}",
                hint="confirm with -y",
            )
        self.out.ask(f"Are you sure you want to {question} [y/N]? ")
        if self.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Refused(f"did not {question}")
