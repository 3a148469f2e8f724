"""Describes the credentials for Azure, and the variable that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qs

from lakecli.stores.access import Access, beginning_of
from lakecli.stores.azure.login import AzureLogin

_CLIENT = "AZURE_CLIENT_ID"


def describe(login: AzureLogin, variables: Mapping[str, str]) -> Access:
    """Return the credentials in use, without logging in.

    Args:
        login: of the account.
        variables: of the environment.
    """
    identity, host = f"of {login.account}", login.host
    if login.key:
        return Access("account key", identity, login.source, endpoint=host)
    if login.sas_token:
        end = _end_of(login.sas_token)
        return Access("SAS token", identity, login.source, endpoint=host, expires_at=end)
    client = variables.get(_CLIENT, "")
    if client:
        return Access("client", beginning_of(client), _CLIENT, endpoint=host)
    return Access("your own login", "", "`az login`, or this machine's identity", endpoint=host)


def _end_of(sas_token: str) -> datetime | None:
    """Return when a token expires; unknown if it refers to a policy of the container."""
    try:
        end = datetime.fromisoformat(parse_qs(sas_token)["se"][0])
    except (KeyError, ValueError):
        return None
    return end if end.tzinfo else end.replace(tzinfo=UTC)
