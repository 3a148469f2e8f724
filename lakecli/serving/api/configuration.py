"""What clients ask about the server: its configuration, its health, and who they are."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from lakecli.base.validation import Record
from lakecli.serving.api.requests import ApiCall, ApiError, ApiOperation, Json, free_text
from lakecli.stores.uri import is_local, parse

VERSION: Final = "1.84.0"
"""The version of lakeFS whose API this is; clients decide by it what they may ask for."""

_TYPES: Final = {"s3": "s3", "gs": "gs", "az": "azure", "https": "azure"}


def check_health(_call: ApiCall) -> Json:
    """Answer that the endpoint works."""
    return None


def get_version(_call: ApiCall) -> Json:
    """Return the version of the API."""
    return {"version": VERSION, "version_context": "lakecli", "upgrade_recommended": False}


def get_storage(call: ApiCall) -> Json:
    """Return what the stores of the repositories can do.

    Clients use presigned URLs by themselves if these are announced. An upload by a presigned URL is
    read once by the endpoint, has at most 5 GiB, and lacks headers that some buckets demand. So
    they are announced only with ``--redirect``, and if all repositories are in buckets. A client
    that asks for such a URL gets one in any case, if the repository is in a bucket.
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


def get_config(call: ApiCall) -> Json:
    """Return the whole configuration."""
    return {
        "version_config": get_version(call),
        "storage_config": get_storage(call),
        "storage_config_list": [],
    }


def get_setup_state(_call: ApiCall) -> Json:
    """Answer that nothing has to be set up."""
    return {"state": "initialized", "comm_prefs_missing": False}


def get_user(call: ApiCall) -> Json:
    """Describe the user, who makes all commits."""
    committer = call.committer()
    user: dict[str, Any] = {"id": committer, "creation_date": 0, "friendly_name": committer}
    if committer.endswith(">"):
        user["email"] = committer.rpartition("<")[2].removesuffix(">")
    return {"user": user}


_LOGIN: Final = Record({"access_key_id": free_text, "secret_access_key": free_text})


def log_in(call: ApiCall) -> Json:
    """Return a token for the key pair."""
    wanted = call.read(_LOGIN)
    token = call.context.access.log_in(wanted["access_key_id"], wanted["secret_access_key"])
    if token is None:
        raise ApiError(HTTPStatus.UNAUTHORIZED, "error authenticating request")
    return {"token": token}


def post_statistics(_call: ApiCall) -> Json:
    """Take statistics of a client, and forget them."""
    return None


OPERATIONS: Final = (
    ApiOperation("healthCheck", "GET", "/healthcheck", check_health, 204),
    ApiOperation("getLakeFSVersion", "GET", "/config/version", get_version),
    ApiOperation("getStorageConfig", "GET", "/config/storage", get_storage),
    ApiOperation("getConfig", "GET", "/config", get_config),
    ApiOperation("getSetupState", "GET", "/setup_lakefs", get_setup_state),
    ApiOperation("getCurrentUser", "GET", "/user", get_user),
    ApiOperation("login", "POST", "/auth/login", log_in),
    ApiOperation("postStatsEvents", "POST", "/statistics", post_statistics, 204),
)
