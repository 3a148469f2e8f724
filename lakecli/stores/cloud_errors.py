"""Error templates, and the `Translator` with which the cloud adapters convert an SDK's errors.

Messages name the object and the endpoint's host; never a URL, a header or a credential.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from lakecli import errors
from lakecli.errors import LakeError
from lakecli.stores.capabilities import UploadNotFound
from lakecli.stores.contract import ConditionFailed, ObjectArchived, ObjectNotFound
from lakecli.stores.obstacles import obstacle_of
from lakecli.stores.responses import RangeIgnoredError, UnusableAnswerError


class Words(NamedTuple):
    """A template of an error: its class, and format strings for its message and hint."""

    error: type[LakeError]
    message: str
    hint: str | None = None

    def filled(self, details: Mapping[str, str]) -> LakeError:
        """Return the error, formatted with `details`; drop a colon before an empty detail."""
        hint = self.hint and self.hint.format_map(details)
        return self.error(self.message.format_map(details).rstrip(": "), hint=hint)


MISSING: Final = Words(ObjectNotFound, "no such object: {what}")
LOST: Final = Words(ConditionFailed, "another version is there, nothing was written: {what}")
ARCHIVED: Final = Words(ObjectArchived, "archived ({tier}), restore it first: {what}", "{restore}")
NO_UPLOAD: Final = Words(UploadNotFound, "no such upload in parts: {what}")
BUSY: Final = Words(errors.Unreachable, "{host} answered {code}: {what}", "{again}")
BROKEN: Final = Words(errors.Unreachable, "{host} broke the connection ({code}): {what}", "{again}")
SILENT: Final = Words(errors.Unreachable, "{host} did not answer in time: {what}", "{again}")
SLOW: Final = Words(
    errors.Unresponsive,
    "{server} did not answer in time, {text}: {what}",
    "{again}; on a slow network, raise network.timeout or lower network.min_rate",
)

REFUSED: Final = Words(errors.Refused, "{host} refused the request ({code}): {what}: {text}")
UNABLE: Final = Words(errors.Unsupported, "{host} cannot do this ({code}): {what}")


def templates(*rows: tuple[Words, str]) -> dict[str, Words]:
    """Return error templates by name; a row has a template and names, separated by spaces."""
    return {name: words for words, names in rows for name in names.split()}


BY_XML_CODE: Final = templates((NO_UPLOAD, "NoSuchUpload InvalidPart InvalidPartOrder"))
"""Templates by error code, for the codes that S3's API shares with Google's XML API."""

BY_STATUS: Final = {404: MISSING, 405: UNABLE, 408: BUSY, 412: LOST, 429: BUSY, 501: UNABLE}
"""Templates by HTTP status for all clouds; an adapter may override some."""

DAMAGED: Final = (
    "repeat the command; if it happens again, suspect the server or the network in between"
)
"""The hint of errors about bytes that changed on the way to or from the server."""

GARBLED: Final = Words(
    errors.IntegrityError, "{host} received other bytes than were sent ({code}): {what}", DAMAGED
)
NO_RANGES: Final = Words(
    errors.Unsupported,
    "{host} does not answer a request for a part of an object with that part: {what}",
    "use a server that implements HTTP ranges",
)

UNUSABLE: Final = Words(
    errors.Unreachable,
    "{host} sent an answer that cannot be used, {text}: {what}",
    "check the endpoint, and whether a proxy or a login page answers in place of the store",
)

SERVER_FAULT: Final = 500
"""The lowest HTTP status of a server error."""


_LONGEST_TEXT: Final = 500


def one_line(text: str) -> str:
    """Return a text of an SDK or server as one line of at most 500 characters, for a message."""
    return " ".join(text.split()).rstrip(".")[:_LONGEST_TEXT]


_ANONYMOUS: Final = "to use your credentials there, change {}"
"""The hint for a request that was refused because it has no credentials."""

_PERMISSION: Final = re.compile(
    r"\b[a-z][a-z0-9-]*:[A-Z][A-Za-z]+\b"
    r"|(?<![\w.@/-])(?:cloudkms|iam|serviceusage|storage)\.(?!googleapis)[A-Za-z]+\.[A-Za-z]+\b"
)
"""A permission in the form of AWS (``s3:PutObject``) or Google (``storage.objects.get``).

Google's form requires the name of a service at the beginning. So a host name, such as that in the
address of an account, does not match.
"""


def permission_hint(text: str) -> str:
    """Return the hint for a refused request; it names the permission that the store's text names.

    lakecli does not guess a permission from the request, because the cause may also be an
    encryption key, or a policy of the bucket or of the organisation.
    """
    found = _PERMISSION.search(text)
    if found is None:
        return "check the credentials in use and their permissions, see `help clouds`"
    return (
        f"policies of the identity, the bucket, the key and the organisation decide on {found[0]}: "
        "change the one that refuses it"
    )


def split_server(url: str, what: str) -> SplitResult | None:
    """Split the URL of a server, ``http[s]://HOST[:PORT]``; return ``None`` for any other text.

    Args:
        what: name of the setting that contains the URL, for the error message.

    Raises:
        UsageError: the URL has a user or a password, which the error does not repeat.
    """
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:  # the IPv6 address or the port is malformed
        return None
    if "@" in parts.netloc:
        raise errors.UsageError(
            f"a user name or a password in {what}",
            hint="leave them out, http[s]://HOST[:PORT]; credentials have settings of their own, "
            "see `help clouds`",
        )
    return parts if is_usable else None


class Translator(ABC):
    """Converts an SDK's errors about one bucket to lakecli's.

    Args:
        host: a function that returns the host that receives requests; it is called only for
            messages that name the host.

    Attributes:
        again: the hint for errors that may be temporary: what to check before the next attempt.
        by_code: error templates by the store's own error code; they take precedence over
            `by_status`.
        refused: error template for a refusal without a template of its own.
        by_class: error templates by the name of the SDK's exception class, or of its nearest base
            class.
        order_hint: the hint for a bucket that does not list keys in byte order; it names an
            alternative.
        bundle: the variable that names the file of trusted certificates.
        anonymous: the setting that turns credentials off; ``""``: requests have credentials.
    """

    again: ClassVar[str]
    by_code: ClassVar[Mapping[str, Words]]
    by_status: ClassVar[Mapping[int, Words]]
    refused: ClassVar[Words] = REFUSED
    by_class: ClassVar[Mapping[str, Words]]
    order_hint: ClassVar[str]
    bundle: ClassVar[str] = "REQUESTS_CA_BUNDLE"
    anonymous: str = ""

    def __init__(self, bucket: str, host: Callable[[], str], **names: str) -> None:
        self._bucket = bucket
        self._host = host
        self._names = names

    @contextmanager
    def translated(self, key: str = "", *, may_be_absent: bool = False) -> Iterator[str]:
        """Convert the errors of a block that sends requests about the object `key` or the bucket.

        Args:
            key: full name of the object, with the prefix of the namespace.
            may_be_absent: whether the request writes the object, so that "not found" is about the
                bucket or the condition.
        """
        try:
            yield key
        except LakeError:  # for example raised by the body of an upload
            raise
        except Exception as error:
            known = self.known(error, key, may_be_absent=may_be_absent)
            if known is None:
                raise
            try:
                raise known from error
            finally:
                del known  # else a reference cycle keeps the error, and its response open

    def known(self, error: Exception, key: str, *, may_be_absent: bool) -> LakeError | None:
        """Return lakecli's error for an error of an SDK, or ``None`` for any other error."""
        if isinstance(error, UnusableAnswerError):
            return self.unusable(str(error), key)
        if isinstance(error, RecursionError):  # raised by a parser of the SDK
            return self.unusable("it is nested too deep", key)
        if isinstance(error, RangeIgnoredError):
            return self.error(NO_RANGES, key)
        from lakecli.stores.answer_limits import slow_answer_of  # loads http.client

        slow = slow_answer_of(error)
        if slow is not None:
            # The slow server may be the one that issues credentials, not the store.
            return self.error(SLOW, key, text=str(slow), server=slow.server or self._host())
        found = self._of_answer(error, key, may_be_absent=may_be_absent)
        found = found or obstacle_of(error, self._host, bundle=self.bundle)
        return found or self._of_sdk(error, key)

    def error(self, words: Words, key: str = "", **details: str) -> LakeError:
        """Return the error for a template, about one object or the bucket."""
        what = repr(f"{self._bucket}/{key}") if key else self._bucket
        details |= self._names | {"bucket": self._bucket, "what": what, "again": self.again}
        # If the configuration is wrong, the host is unknown; the templates for it name no host.
        if "{host}" in words.message:
            details["host"] = self._host()
        if self.anonymous and issubclass(words.error, errors.PermissionDenied):
            words = words._replace(hint=_ANONYMOUS.format(self.anonymous))
        return words.filled(details)

    def check_writes(self, method: str) -> None:
        """Refuse a request that writes, if requests are sent without credentials."""
        if self.anonymous and method not in {"GET", "HEAD"}:
            raise errors.PermissionDenied(
                f"{self._bucket} is read without credentials, nothing was written there",
                hint=_ANONYMOUS.format(self.anonymous),
            )

    def no_signature(self, url: str) -> LakeError:
        """Return the error for presigning without credentials; `url` is the object's plain URL."""
        return errors.Unsupported(
            f"cannot presign, {self._bucket} is read without credentials",
            hint=f"its objects have plain URLs: {url}",
        )

    def unusable(self, text: str, key: str = "") -> LakeError:
        """Return the error for a response that is not a store's; `text` describes the defect."""
        return self.error(UNUSABLE, key, text=text)

    def no_order(self) -> LakeError:
        """Return the error for a bucket that is not listed in byte order."""
        text = "{host} does not list the keys in byte order: {bucket}"
        return self.error(Words(errors.Unsupported, text, self.order_hint))

    def words_of(self, code: str, status: int) -> Words:
        """Return the error template for a refusal with this error code and HTTP status."""
        words = self.by_code.get(code) or self.by_status.get(status)
        return words or (BUSY if status >= SERVER_FAULT else self.refused)

    def refused_delete(self, status: int, code: str, key: str) -> LakeError:
        """Return the error for one object that a batch of deletions could not delete."""
        details = {"code": code or str(status), "text": "", "action": self.action_for("")}
        return self.error(self.words_of(code, status), key, **details)

    def action_for(self, text: str) -> str:
        """Return a hint for a refusal, based on the text of the store's error."""
        return permission_hint(text)

    @abstractmethod
    def _of_answer(self, error: Exception, key: str, *, may_be_absent: bool) -> LakeError | None:
        """Return the error for a server's error response, or ``None`` for any other error."""

    def _of_sdk(self, error: Exception, key: str) -> LakeError | None:
        names = (base.__name__ for base in type(error).__mro__)
        words = next((self.by_class[name] for name in names if name in self.by_class), None)
        if words is None:
            return None
        return self.error(words, key, text=self._text_of(error), code=type(error).__name__)

    def _text_of(self, error: Exception) -> str:
        """Return the part of the SDK's error that a message quotes."""
        return one_line(str(error).partition("\n")[0])
