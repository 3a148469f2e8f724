"""Converts the errors of Azure's SDK to lakecli's."""

from collections.abc import Callable
from http import HTTPStatus
from shlex import quote
from typing import Any

from lakecli.base.model import Demand
from lakecli.errors import LakeError, PermissionDenied, Refused, Unreachable, UsageError
from lakecli.stores import cloud_errors
from lakecli.stores.azure.credentials import HOW_TO_LOG_IN, KEY
from lakecli.stores.cloud_errors import Translator, Words, one_line, permission_hint, templates
from lakecli.stores.contract import BucketNotFound, ConditionFailed, NotAllowed

_DENIED = Words(
    PermissionDenied, "{host} refused the request ({code}): {what}: {text}", permission_hint("")
)
_BAD_LOGIN = Words(
    PermissionDenied,
    "{host} does not accept the credentials ({code}): {what}: {text}",
    f"check them and the clock of this machine; {HOW_TO_LOG_IN}",
)
_REFUSES_KEYS = Words(
    PermissionDenied,
    "{host} accepts no account keys ({code}): {what}",
    f"unset {KEY} and run `az login`",
)
_NO_BUCKET = Words(
    BucketNotFound,
    "no such container at {host}: {bucket}",
    "create it, for example with `az storage container create --account-name {account} --name "
    "{container}`, or correct the URI",
)
_OVERTAKEN = Words(
    ConditionFailed,
    "another upload of the same object ended first, nothing was written: {what}",
    "repeat the command",
)
_OTHER_SCOPE = _DENIED._replace(
    hint=f"add {{bucket}}=SCOPE, its encryption scope, to the setting {Demand.AZ_SCOPE}"
)
_BAD_NAME = Words(UsageError, "{host} cannot hold an object of this key ({code}): {what}")

_NO_BLOB = "BlobNotFound"

_BY_CODE = templates(
    (cloud_errors.ARCHIVED, "BlobArchived BlobBeingRehydrated"),
    (cloud_errors.BUSY, "PendingCopyOperation"),
    (cloud_errors.GARBLED, "Crc64Mismatch Md5Mismatch"),
    (cloud_errors.LOST, "BlobAlreadyExists ConditionNotMet TargetConditionNotMet"),
    (cloud_errors.LOST, "UnauthorizedBlobOverwrite"),
    (cloud_errors.MISSING, f"{_NO_BLOB} CannotVerifyCopySource"),
    (cloud_errors.REFUSED, "LeaseIdMissing LeaseIdMismatchWithBlobOperation"),
    (_BAD_LOGIN, "AuthenticationFailed InvalidAuthenticationInfo NoAuthenticationInformation"),
    (_BAD_NAME, "InvalidResourceName InvalidUri OutOfRangeInput"),
    (_DENIED, "ContainerDisabled PublicAccessNotPermitted"),
    (_NO_BUCKET, "ContainerBeingDeleted ContainerNotFound"),
    (_REFUSES_KEYS, "KeyBasedAuthenticationNotPermitted"),
    (_OTHER_SCOPE, "BlobUsesCustomerSpecifiedEncryption"),
    (_OTHER_SCOPE, "RequestForbiddenByContainerEncryptionPolicy"),
    (_OVERTAKEN, "InvalidBlockList"),
)
_NO_LOGIN = "no credentials for the storage account {account!r}"
_BAD_KEY = "the key of the storage account is malformed"

_BY_CLASS = templates(
    (Words(PermissionDenied, _BAD_KEY, HOW_TO_LOG_IN), "AzureSigningError"),
    (Words(PermissionDenied, _NO_LOGIN, HOW_TO_LOG_IN), "ClientAuthenticationError"),
    (Words(Refused, "the SDK of Azure refused the request ({code}): {text}"), "AzureError"),
    (Words(Unreachable, "{host} does not answer: {what}", "{again}"), "ServiceRequestError"),
    (cloud_errors.SILENT, "ServiceRequestTimeoutError ServiceResponseTimeoutError"),
    # `HttpResponseError` is raised without a response if the connection broke.
    (cloud_errors.BROKEN, "DecodeError HttpResponseError IncompleteReadError ServiceResponseError"),
)

NOT_COPIED = Words(Unreachable, "{host} did not finish a copy ({code}): {what}", "{again}")


class AzureTranslator(Translator):
    """Converts the SDK's errors about one container and its blobs to lakecli's."""

    again = "wait and repeat the command, or check the account's name and the network"
    by_class = _BY_CLASS
    by_code = _BY_CODE
    by_status = cloud_errors.BY_STATUS | {401: _BAD_LOGIN, 403: _DENIED._replace(error=NotAllowed)}
    order_hint = "use a storage account without a hierarchical namespace"

    def __init__(self, account: str, container: str, host: Callable[[], str]) -> None:
        super().__init__(f"az://{account}/{container}", host, account=account, container=container)

    def _of_answer(self, error: Any, key: str, *, may_be_absent: bool) -> LakeError | None:  # noqa: ANN401 - its class is the SDK's
        while isinstance(error, TypeError | AttributeError):
            error = error.__context__  # the SDK fails to parse an XML error without a message
        status = getattr(error, "status_code", None)
        if not isinstance(status, int):
            return None
        if status < HTTPStatus.MULTIPLE_CHOICES:
            return self.unusable(f"it is not one to this request ({status})", key)
        code = getattr(error, "error_code", None)
        code = str(getattr(code, "value", code) or "")
        words = self.words_of(code, status)
        if words is cloud_errors.MISSING and (may_be_absent or not key):
            # Without Azure's code for a missing blob, the answer is not a result of the condition.
            words = cloud_errors.LOST if code == _NO_BLOB and may_be_absent else _NO_BUCKET
        text = one_line(str(error.message).partition("\n")[0])
        if (
            words is cloud_errors.REFUSED and "contentMD5" in text
        ):  # the emulator has no code for it
            words = cloud_errors.GARBLED
        details = self._of_archive(code, key) if words is cloud_errors.ARCHIVED else {}
        return self.error(words, key, code=code or str(status), text=text, **details)

    def _of_archive(self, code: str, key: str) -> dict[str, str]:
        if code == "BlobBeingRehydrated":
            return {"tier": "Archive, being restored", "restore": "wait, which may take hours"}
        restore = (
            "az storage blob set-tier --account-name {account} --container-name {container}"
        ).format_map(self._names)
        return {"tier": "Archive", "restore": f"{restore} --name {quote(key)} --tier Hot"}
