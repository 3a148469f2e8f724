"""How the adapters of the clouds turn an SDK's errors into lakecli's: tables of words.

Messages name the object and the endpoint's host; never a URL, a header or a credential.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from lakecli.errors import (
    IntegrityError,
    LakeError,
    PermissionDenied,
    Refused,
    Unreachable,
    Unresponsive,
    Unsupported,
    UsageError,
)
from lakecli.stores.capabilities import UploadNotFound
from lakecli.stores.contract import ConditionFailed, ObjectArchived, ObjectNotFound
from lakecli.stores.obstacles import obstacle_of
from lakecli.stores.responses import RangeIgnoredError, UnusableAnswerError


class Words(NamedTuple):
    """The class of an error, and templates for its message and hint."""

    error: type[LakeError]
    message: str
    hint: str | None = None

    def filled(self, details: Mapping[str, str]) -> LakeError:
        """Return the error that these words describe; details at the end may be empty."""
        hint = self.hint and self.hint.format_map(details)
        return self.error(self.message.format_map(details).rstrip(": "), hint=hint)


MISSING: Final = Words(ObjectNotFound, "no such object: {what}")
LOST: Final = Words(ConditionFailed, "another version is there, nothing was written: {what}")
ARCHIVED: Final = Words(ObjectArchived, "archived ({tier}), restore it first: {what}", "{restore}")
NO_UPLOAD: Final = Words(UploadNotFound, "no such upload in parts: {what}")
BUSY: Final = Words(Unreachable, "{host} answered {code}: {what}", "{again}")
BROKEN: Final = Words(Unreachable, "{host} broke the connection ({code}): {what}", "{again}")
SILENT: Final = Words(Unreachable, "{host} did not answer in time: {what}", "{again}")
SLOW: Final = Words(
    Unresponsive,
    "{server} did not answer in time, {text}: {what}",
    "{again}; on a slow network, raise network.timeout or lower network.min_rate",
)

REFUSED: Final = Words(Refused, "{host} refused the request ({code}): {what}: {text}")
UNABLE: Final = Words(Unsupported, "{host} cannot do this ({code}): {what}")

BY_XML_CODE: Final = dict.fromkeys(("NoSuchUpload", "InvalidPart", "InvalidPartOrder"), NO_UPLOAD)
"""What a code means in S3's API, which Google's XML API follows."""

BY_STATUS: Final = {404: MISSING, 405: UNABLE, 408: BUSY, 412: LOST, 429: BUSY, 501: UNABLE}
"""What a status means in all clouds; some mean more in one of them."""

DAMAGED: Final = (
    "repeat the command; if it happens again, suspect the server or the network in between"
)
"""The hint of an error that says that bytes changed on their way."""

GARBLED: Final = Words(
    IntegrityError, "{host} received other bytes than were sent ({code}): {what}", DAMAGED
)
NO_RANGES: Final = Words(
    Unsupported,
    "{host} does not answer a request for a part of an object with that part: {what}",
    "use a server that implements HTTP ranges",
)

UNUSABLE: Final = Words(
    Unreachable,
    "{host} sent an answer that cannot be used, {text}: {what}",
    "check the endpoint, and whether a proxy or a login page answers in place of the store",
)

SERVER_FAULT: Final = 500
"""The first HTTP status that says that the server failed."""


_LONGEST_TEXT: Final = 500


def one_line(text: str) -> str:
    """Return a text of an SDK or a server, or its beginning, so that it fits into a message."""
    return " ".join(text.split()).rstrip(".")[:_LONGEST_TEXT]


_ANONYMOUS: Final = "to use your credentials there, change {}"
"""The hint for a refusal of a request without credentials."""

_PERMISSION: Final = re.compile(
    r"\b[a-z][a-z0-9-]*:[A-Z][A-Za-z]+\b"
    r"|(?<![\w.@/-])(?:cloudkms|iam|serviceusage|storage)\.(?!googleapis)[A-Za-z]+\.[A-Za-z]+\b"
)
"""A permission as AWS (``s3:PutObject``) and Google (``storage.objects.get``) write it; Google's
begin with a service, so that no host, as in the address of an account, is taken for one."""


def permission_hint(text: str) -> str:
    """Return the hint for a refusal: the permission that the store's own text names, if any.

    A permission that is guessed from the request is often the wrong one: the key of an encryption,
    or a policy of the bucket or of the organisation, may be what refuses.
    """
    found = _PERMISSION.search(text)
    if found is None:
        return "check the credentials in use and their permissions, see `help clouds`"
    return (
        f"policies of the identity, the bucket, the key and the organisation decide on {found[0]}: "
        "change the one that refuses it"
    )


def split_server(url: str, what: str) -> SplitResult | None:
    """Return the parts of the URL of a server, ``http[s]://HOST[:PORT]``; ``None`` if it is none.

    Args:
        what: the setting that it comes from.

    Raises:
        UsageError: it has a user or a password, which the error does not repeat.
    """
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:  # of an IPv6 address, or of a port
        return None
    if "@" in parts.netloc:
        raise UsageError(
            f"a user name or a password in {what}",
            hint="leave them out, http[s]://HOST[:PORT]; credentials have settings of their own, "
            "see `help clouds`",
        )
    return parts if is_usable else None


class Translator(ABC):
    """Turns an SDK's errors about one bucket into lakecli's.

    Args:
        host: returns the host that requests go to; called only when an error names it.

    Attributes:
        again: the hint of errors that may pass: what to check before the next try.
        by_code: words by the store's own code of an error, which counts before the status.
        refused: words of any other refusal.
        by_class: words by the name of the SDK's class; the nearest base class counts.
        order_hint: what to use instead of a bucket that lists keys in another order.
        bundle: the variable that names the file of trusted certificates.
        anonymous: the setting by which requests carry no credentials, or ``""`` if they do.
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
        """Translate the errors of a block, which is about the object `key` or the bucket.

        Args:
            key: in full, with the prefix of the namespace.
            may_be_absent: the request writes the object, so "not found" is about the bucket or
                the condition.
        """
        try:
            yield key
        except LakeError:  # of a body that is read, for example
            raise
        except Exception as error:
            known = self.known(error, key, may_be_absent=may_be_absent)
            if known is None:
                raise
            try:
                raise known from error
            finally:
                del known  # or the error, and with it an open response, would refer to itself

    def known(self, error: Exception, key: str, *, may_be_absent: bool) -> LakeError | None:
        """Translate an error of an SDK; return ``None`` for any other error."""
        if isinstance(error, UnusableAnswerError):
            return self.unusable(str(error), key)
        if isinstance(error, RecursionError):  # of a parser of the SDK
            return self.unusable("it is nested too deep", key)
        if isinstance(error, RangeIgnoredError):
            return self.error(NO_RANGES, key)
        from lakecli.stores.answer_limits import slow_answer_of  # loads http.client

        slow = slow_answer_of(error)
        if slow is not None:
            # It may be one that credentials come from.
            return self.error(SLOW, key, text=str(slow), server=slow.server or self._host())
        found = self._of_answer(error, key, may_be_absent=may_be_absent)
        found = found or obstacle_of(error, self._host, bundle=self.bundle)
        return found or self._of_sdk(error, key)

    def error(self, words: Words, key: str = "", **details: str) -> LakeError:
        """Return the error that `words` describe, about one object or the bucket."""
        what = repr(f"{self._bucket}/{key}") if key else self._bucket
        details |= self._names | {"bucket": self._bucket, "what": what, "again": self.again}
        # Where the configuration is wrong, the host is unknown; those words do not name it.
        if "{host}" in words.message:
            details["host"] = self._host()
        if self.anonymous and issubclass(words.error, PermissionDenied):
            words = words._replace(hint=_ANONYMOUS.format(self.anonymous))
        return words.filled(details)

    def check_writes(self, method: str) -> None:
        """Refuse a request that changes something, if requests carry no credentials."""
        if self.anonymous and method not in {"GET", "HEAD"}:
            raise PermissionDenied(
                f"{self._bucket} is read without credentials, nothing was written there",
                hint=_ANONYMOUS.format(self.anonymous),
            )

    def no_signature(self, url: str) -> LakeError:
        """Return the error of an object whose URL cannot be signed without credentials."""
        return Unsupported(
            f"cannot presign, {self._bucket} is read without credentials",
            hint=f"its objects have plain URLs: {url}",
        )

    def unusable(self, text: str, key: str = "") -> LakeError:
        """Return the error of an answer that no store sends; `text` says what is wrong with it."""
        return self.error(UNUSABLE, key, text=text)

    def no_order(self) -> LakeError:
        """Return the error of a bucket that is not listed in byte order."""
        words = Words(
            Unsupported, "{host} does not list the keys in byte order: {bucket}", self.order_hint
        )
        return self.error(words)

    def words_of(self, code: str, status: int) -> Words:
        """Return the words for a refusal with a code and a status."""
        words = self.by_code.get(code) or self.by_status.get(status)
        return words or (BUSY if status >= SERVER_FAULT else self.refused)

    def refused_delete(self, status: int, code: str, key: str) -> LakeError:
        """Return the error for one object that a batch of deletions kept."""
        details = {"code": code or str(status), "text": "", "action": self.action_for("")}
        return self.error(self.words_of(code, status), key, **details)

    def action_for(self, text: str) -> str:
        """Return what to do about a refusal that the store explains by a text."""
        return permission_hint(text)

    @abstractmethod
    def _of_answer(self, error: Exception, key: str, *, may_be_absent: bool) -> LakeError | None:
        """Return the error for a server's answer, ``None`` for any other of the SDK's errors."""

    def _of_sdk(self, error: Exception, key: str) -> LakeError | None:
        names = (base.__name__ for base in type(error).__mro__)
        words = next((self.by_class[name] for name in names if name in self.by_class), None)
        if words is None:
            return None
        return self.error(words, key, text=self._text_of(error), code=type(error).__name__)

    def _text_of(self, error: Exception) -> str:
        """Return what a message quotes of the SDK's error."""
        return one_line(str(error).partition("\n")[0])
