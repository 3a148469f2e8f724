"""``lakecli config``, and ``lakecli use``, which sets the default repository."""

from typing import Final, NotRequired, TypedDict

from lakecli.base.uri import LakeUri
from lakecli.cli.context import Context
from lakecli.cli.line import argument, flag
from lakecli.cli.out.records import answers
from lakecli.cli.params import SettingName
from lakecli.cli.parsers import read_repository_or_ref
from lakecli.errors import NotFound, Refused, UsageError
from lakecli.settings.home import set_value, unset_value
from lakecli.settings.keys import SYNC, USE, find_key
from lakecli.settings.settings import Setting, git_user

ASKED: Final = ("user.name", "user.email", SYNC, "cache.size")
"""The settings to ask for, in order. None is secret: credentials are configured with the clouds'
own tools."""

_HIDDEN: Final = "********"


class SettingJson(TypedDict):
    """A setting.

    Attributes:
        origin: with --show-origin, the kind of source: flag, environment, file or default.
        place: with --show-origin, the name of the flag or variable, or the path of the file.
    """

    key: str
    value: str | None
    origin: NotRequired[str]
    place: NotRequired[str | None]


class SettingWrittenJson(TypedDict):
    """A setting that was changed.

    Attributes:
        value: new value.
        file: the configuration file.
    """

    key: str
    value: NotRequired[str]
    file: str


class UsedJson(TypedDict):
    """The repository or ref that commands without a URI use.

    Attributes:
        uri: URI of the repository or ref; null if there is none.
    """

    uri: str | None


@answers(SettingJson)
def config_get(context: Context, key: SettingName) -> None:
    """Print the value of a setting.

    This is the value in effect: from the option, else from the environment variable, else from the
    configuration file, else the default.

    Examples:
        lakecli config get user.name
    """
    value = context.settings.find(key).text
    if value is None:
        raise NotFound(f"{key} is not set", hint=f"lakecli config set {key} VALUE")
    context.out.emit({"key": key, "value": value}, text=lambda: [value])


@answers(SettingWrittenJson)
def config_set(context: Context, key: SettingName, value: str = argument("VALUE")) -> None:
    """Change a setting in the configuration file.

    The file is created if necessary. Comments and other settings in it are kept.

    A repository may have its own `sync` and `trust.addresses`, and for S3 a `profile`, an
    `endpoint` and a `region`: repo.NAME.profile. See `lakecli help clouds`.

    checks.NAME is the command of a check, for `check run` and --check. Commands of checks and hooks
    are split into words as in a shell, which is not run.

    `lakecli config` alone on a terminal asks for the committer, automatic sync and the size of the
    cache.

    Args:
        value: New value.

    Examples:
        lakecli config set user.name "Ada Lovelace"
        lakecli config set cache.size "2 GiB"
        lakecli config set repo.sales.profile prod
    """
    _set(context, key, value)
    context.out.emit({"key": key, "value": value, "file": str(context.config_file)})


def _set(context: Context, key: str, value: str) -> None:
    set_value(context.config_file, key, value)
    stronger = context.settings.find(key)
    if stronger.place not in ("", context.config_file):
        context.out.warn(f"{stronger.place} still overrides {key}")


@answers(SettingWrittenJson)
def config_unset(context: Context, key: SettingName) -> None:
    """Remove a setting from the configuration file.

    Examples:
        lakecli config unset user.name
    """
    unset_value(context.config_file, key)
    context.out.emit({"key": key, "file": str(context.config_file)})


@answers(SettingJson, each=True)
def config_list(context: Context, *, show_origin: bool = flag()) -> None:
    """List all settings and their values.

    A value comes from an option, else from an environment variable, else from the configuration
    file, else it is the default. Secrets are shown as asterisks; `config get` prints them. Settings
    of lakectl that have no effect are named, with the reason.

    Args:
        show_origin: Show where each value comes from.

    Examples:
        lakecli config list
        lakecli config list --show-origin
    """
    columns = ("Key", "Value", "Origin") if show_origin else ("Key", "Value")

    def shown(setting: Setting) -> str | None:
        return _HIDDEN if setting.text and setting.key.is_secret else setting.text

    def row(setting: Setting) -> tuple[str, ...]:
        cells = (setting.key.name, shown(setting) or "")
        return (*cells, setting.place or setting.origin) if show_origin else cells

    def record(setting: Setting) -> dict[str, object]:
        fields: dict[str, object] = {"key": setting.key.name, "value": shown(setting)}
        if show_origin:
            fields |= {"origin": setting.origin, "place": setting.place or None}
        return fields

    context.out.table(columns, context.settings, row=row, record=record, kept=columns[:2])
    for line in context.ignored_of_lakectl():
        context.out.note(line)


@answers(UsedJson)
def use(
    context: Context,
    default: LakeUri | None = argument("REF", default=None, read=read_repository_or_ref),
    *,
    unset: bool = flag(),
) -> None:
    """Set or show the default repository of commands without a URI.

    Then status, diff, commit, log, pull, push, fetch, undo, redo, `op log`, `branch list` and `tag
    list` need no URI. Refs can be written without lakefs://REPOSITORY/, and so can paths in
    commands that only read: `fs ls main/`. In a linked directory, these commands use the directory
    and its branch instead. The default is stored in the setting `use`.

    Args:
        default: lakefs://REPOSITORY[/BRANCH-OR-TAG].
        unset: Remove the default.

    Examples:
        lakecli use lakefs://demo
        lakecli use lakefs://demo/experiment
        lakecli use
        lakecli use --unset
    """
    if unset and default is not None:
        raise UsageError("--unset takes no URI", hint="lakecli use --unset")
    lines: list[str] = []
    used = None
    if unset:
        if context.settings.used is not None:
            unset_value(context.config_file, USE)
    elif default is not None:
        repository = context.repository(default)
        if default.ref is not None:
            from lakecli.repository.log import show_commit

            show_commit(repository, default.ref)
        used = str(default)
        _set(context, USE, used)
        lines.append(f"Using {default}")
    else:
        used = context.settings.used
        lines.append("No default is set" if used is None else f"Using {used}")
    context.out.emit(UsedJson(uri=used), text=lambda: lines)


def is_asked(context: Context) -> bool:
    """Return whether lakecli may ask questions: on a terminal, and without ``--json``."""
    return context.can_ask and not context.out.json


def configure(context: Context) -> int:
    """Ask for settings one by one; write all changes together, after the last question.

    Raises:
        Refused: the input ended before the last question; nothing is written.
    """
    context.out.note(f"Settings in {context.config_file}. Enter keeps the value in brackets.")
    known = git_user(context.environ)
    changed: dict[str, str] = {}
    for name in ASKED:
        present = context.settings.find(name).text or known.get(name, "")
        answer = _ask(context, name, present)
        if answer not in ("", present):
            changed[name] = answer
    for name, text in changed.items():
        context.out.say(f"{name} = {text}")
        _set(context, name, text)
    if not changed:
        context.out.note("nothing changed")
    context.out.note("all settings: lakecli config list; credentials: lakecli help clouds")
    return 0


def _ask(context: Context, name: str, present: str) -> str:
    """Ask for a setting and return the answer, or ``""`` to keep the current value.

    After an invalid answer, print an error and ask again.
    """
    key = find_key(name)
    summary = key.summary.partition("; default")[0]
    while True:
        shown = f" [{present}]" if present else f" (such as {key.example})"
        context.out.ask(f"{name}, {summary}{shown}: ")
        line = context.stdin.readline()
        if not line:
            raise Refused(
                "no more answers: nothing was changed", hint="lakecli config set KEY VALUE"
            )
        answer = line.strip()
        if not answer:
            return ""
        try:
            key.parse(answer)
        except UsageError as error:
            context.out.warn(error.message)
            if error.hint:
                context.out.hint(error.hint)
            continue
        return answer
