"""What the SDK of Azure says, in lakecli's words.

Messages name the object and the endpoint's host; never a URL, which may hold a signature.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakecli.errors import (
    IntegrityError,
    LakeError,
    PermissionDenied,
    Refused,
    Unreachable,
    Unsupported,
    UsageError,
)
from lakecli.objectstore.azure.login import HOW_TO_LOG_IN, KEY
from lakecli.objectstore.base import BucketNotFound, ConditionFailed, ObjectNotFound
from lakecli.objectstore.wording import Words, by_class, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AGAIN = "wait and repeat the command, or check the account's name and the network"
_DAMAGED = "repeat the command; if it happens again, suspect the network in between"
_ROLE = (
    "the identity in use needs the role Storage Blob Data Contributor, or the signature more "
    "permissions"
)

_REFUSED = Words(Refused, "{host} refused the request ({code}): {what}: {text}")
_DENIED = Words(PermissionDenied, "{host} refused the request ({code}): {what}", _ROLE)
_BAD_LOGIN = Words(
    PermissionDenied,
    "{host} does not accept the credentials ({code}): {what}",
    f"check them and the clock of this machine; {HOW_TO_LOG_IN}",
)
_NO_KEYS = Words(
    PermissionDenied,
    "{host} accepts no account keys ({code}): {what}",
    f"unset {KEY} and run `az login`",
)
_BUSY = Words(Unreachable, "{host} answered {code}: {what}", _AGAIN)
_UNABLE = Words(Unsupported, "{host} cannot do this ({code}): {what}")
_MISSING = Words(ObjectNotFound, "no such object: {what}")
_NO_BUCKET = Words(
    BucketNotFound,
    "no such container at {host}: {bucket}",
    "create it, for example with `az storage container create --account-name {account} --name "
    "{container}`, or correct the namespace",
)
_LOST = Words(ConditionFailed, "another version is there, nothing was written: {what}")
_OVERTAKEN = Words(
    ConditionFailed,
    "another upload of the same object ended first, nothing was written: {what}",
    "repeat the command",
)
_GARBLED = Words(
    IntegrityError, "{host} received other bytes than were sent ({code}): {what}", _DAMAGED
)
_BAD_NAME = Words(UsageError, "{host} cannot hold an object of this key ({code}): {what}")

_BY_CODE = {
    "AuthenticationFailed": _BAD_LOGIN,
    "BlobAlreadyExists": _LOST,
    "BlobNotFound": _MISSING,
    "CannotVerifyCopySource": _MISSING,
    "ConditionNotMet": _LOST,
    "ContainerBeingDeleted": _NO_BUCKET,
    "ContainerDisabled": _DENIED,
    "ContainerNotFound": _NO_BUCKET,
    "Crc64Mismatch": _GARBLED,
    "InvalidAuthenticationInfo": _BAD_LOGIN,
    "InvalidBlockList": _OVERTAKEN,
    "InvalidResourceName": _BAD_NAME,
    "InvalidUri": _BAD_NAME,
    "KeyBasedAuthenticationNotPermitted": _NO_KEYS,
    "LeaseIdMissing": _REFUSED,
    "LeaseIdMismatchWithBlobOperation": _REFUSED,
    "Md5Mismatch": _GARBLED,
    "NoAuthenticationInformation": _BAD_LOGIN,
    "OutOfRangeInput": _BAD_NAME,
    "PendingCopyOperation": _BUSY,
    "PublicAccessNotPermitted": _DENIED,
    "TargetConditionNotMet": _LOST,
    "UnauthorizedBlobOverwrite": _LOST,
}
_BY_STATUS = {
    401: _BAD_LOGIN,
    403: _DENIED,
    404: _MISSING,
    405: _UNABLE,
    408: _BUSY,
    412: _LOST,
    429: _BUSY,
    501: _UNABLE,
}
_SERVER_FAULT = 500

_SILENT = Words(Unreachable, "{host} did not answer in time: {what}", _AGAIN)
_BROKEN = Words(Unreachable, "{host} broke the connection ({code}): {what}", _AGAIN)
_BY_CLASS = {
    "AzureError": Words(Refused, "the SDK of Azure refused the request ({code}): {text}"),
    "AzureSigningError": Words(
        PermissionDenied, "the key of the storage account is malformed", HOW_TO_LOG_IN
    ),
    "ClientAuthenticationError": Words(
        PermissionDenied, "no credentials for the storage account {account!r}", HOW_TO_LOG_IN
    ),
    "DecodeError": _BROKEN,
    "HttpResponseError": _BROKEN,  # without an answer: it broke off
    "IncompleteReadError": _BROKEN,
    "ServiceRequestError": Words(Unreachable, "{host} does not answer: {what}", _AGAIN),
    "ServiceRequestTimeoutError": _SILENT,
    "ServiceResponseError": _BROKEN,
    "ServiceResponseTimeoutError": _SILENT,
}

_NO_RANGES = Words(
    Unsupported,
    "{host} answered a request for a part of an object with something else: {what}",
    "use a server that implements HTTP ranges",
)
_NO_ORDER = Words(
    Unsupported,
    "{host} does not list the keys in byte order: {bucket}",
    "use a storage account without a hierarchical namespace",
)
_NOT_COPIED = Words(Unreachable, "{host} did not finish a copy ({code}): {what}", _AGAIN)


class Translator:
    """Turns the SDK's errors about one container into lakecli's.

    Args:
        account: its name.
        container: its name.
        host: says where requests go; asked when there is something to tell.
    """

    def __init__(self, account: str, container: str, host: Callable[[], str]) -> None:
        self._account = account
        self._container = container
        self._host = host

    @contextmanager
    def translated(self, key: str = "", *, is_write: bool = False) -> Iterator[None]:
        """Translate what happens inside, about the object `key` or the container.

        Args:
            key: in full, with the prefix of the namespace.
            is_write: of the object; if it must be there and is not, the condition did not hold.
        """
        try:
            yield
        except LakeError:
            raise  # of a body that is read, for example
        except Exception as error:
            known = self._of_answer(error, key, is_write=is_write) or self._of_sdk(error, key)
            if known is None:
                raise
            raise known from error

    def refused(self, status: int, code: str, key: str) -> LakeError:
        """Return the error for one object of several."""
        words = _BY_CODE.get(code) or _BY_STATUS.get(status)
        words = words or (_BUSY if status >= _SERVER_FAULT else _REFUSED)
        return self._error(words, key, code=code or str(status), text="")

    def no_ranges(self, key: str) -> LakeError:
        """Return the error of a server that does not implement ranges."""
        return self._error(_NO_RANGES, key)

    def no_order(self) -> LakeError:
        """Return the error of a container that is listed in another order."""
        return self._error(_NO_ORDER, "")

    def not_copied(self, status: str, key: str) -> LakeError:
        """Return the error of a copy that the store gave up."""
        return self._error(_NOT_COPIED, key, code=status)

    def _error(self, words: Words, key: str, **details: str) -> LakeError:
        bucket = f"az://{self._account}/{self._container}"
        known = {
            "host": self._host(),
            "account": self._account,
            "container": self._container,
            "bucket": bucket,
            "what": repr(f"{bucket}/{key}") if key else bucket,
        }
        return words.filled(known | details)

    def _of_answer(self, error: Any, key: str, *, is_write: bool) -> LakeError | None:  # noqa: ANN401 - its class is the SDK's
        status = getattr(error, "status_code", None)
        if not isinstance(status, int):
            return None
        code = getattr(error, "error_code", None)
        code = str(getattr(code, "value", code) or "")
        words = _BY_CODE.get(code) or _BY_STATUS.get(status)
        if words is None:
            words = _BUSY if status >= _SERVER_FAULT else _REFUSED
        elif words is _MISSING and (is_write or not key):
            words = _LOST if is_write else _NO_BUCKET
        text = one_line(str(error.message).partition("\n")[0])
        if words is _REFUSED and "contentMD5" in text:  # the emulator has no code for it
            words = _GARBLED
        return self._error(words, key, code=code or str(status), text=text)

    def _of_sdk(self, error: Exception, key: str) -> LakeError | None:
        words = by_class(_BY_CLASS, error)
        if words is None:
            return None
        text = one_line(str(error).partition("\n")[0])
        return self._error(words, key, code=type(error).__name__, text=text)
