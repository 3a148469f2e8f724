"""Operations about the server itself: configuration, health and the current user."""

from collections.abc import Mapping
from typing import Any, Final

from lakecli.serving.api.requests import ApiCall, ApiOperation
from lakecli.stores.uri import is_local, parse

VERSION: Final = {"version": "1.84.0", "version_context": "lakeFS", "upgrade_recommended": False}
"""The lakeFS version that the endpoint reports; it tells clients which operations they can use.

If ``version_context`` is not ``lakeFS``, lakectl 1.84 assumes lakeFS Enterprise and warns before
each command.
"""

_TYPES: Final = {"s3": "s3", "gs": "gs", "az": "azure", "https": "azure"}


def get_storage(call: ApiCall) -> Mapping[str, Any]:
    """Return the storage configuration: the kind of the stores, and whether they presign URLs.

    Clients use presigned URLs of their own accord if the configuration announces such URLs. But an
    upload by a presigned URL is limited to 5 GiB and lacks headers that some buckets require, and
    the endpoint must read the uploaded object once more. So presigned URLs are announced only with
    ``--redirect``, and only if all repositories are in buckets. A client that requests a presigned
    URL explicitly gets one whenever the repository is in a bucket.
    """
    places = [each.storage_namespace for each in call.context.served.records()]
    kinds = {_TYPES.get(parse(each).scheme, "local") for each in places}
    signs = call.context.options.redirect and bool(places) and not any(map(is_local, places))
    return {
        "blockstore_type": kinds.pop() if len(kinds) == 1 else "local",
        "blockstore_namespace_example": "s3://example-bucket/",
        "blockstore_namespace_ValidityRegex": "^(s3|gs|az|https|local)://",
        "pre_sign_support": signs,
        "pre_sign_support_ui": signs,
        "pre_sign_multipart_upload": False,
        "import_support": True,
        "import_validity_regex": "^(s3|gs|az|https|local)://",
        "blockstore_id": "",
        "blockstore_description": "",
    }


def get_config(call: ApiCall) -> Mapping[str, Any]:
    """Return the configuration: the version and the storage configuration."""
    storage = get_storage(call)
    return {"version_config": VERSION, "storage_config": storage, "storage_config_list": []}


def get_user(call: ApiCall) -> Mapping[str, Any]:
    """Return the only user: the committer of all commits."""
    return {"user": {"id": call.committer, "creation_date": 0, "friendly_name": call.committer}}


_STATE: Final = {"state": "initialized", "comm_prefs_missing": False}

OPERATIONS: Final = (
    ApiOperation("healthCheck", "GET", "/healthcheck", lambda _: None, 204),
    ApiOperation("getLakeFSVersion", "GET", "/config/version", lambda _: VERSION),
    ApiOperation("getStorageConfig", "GET", "/config/storage", get_storage),
    ApiOperation("getConfig", "GET", "/config", get_config),
    ApiOperation("getSetupState", "GET", "/setup_lakefs", lambda _: _STATE),
    ApiOperation("getCurrentUser", "GET", "/user", get_user),
    ApiOperation("postStatsEvents", "POST", "/statistics", lambda _: None, 204),
)
