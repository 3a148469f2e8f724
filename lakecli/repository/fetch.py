"""Read the positions of the refs in the bucket, and their commits: Git's ``fetch``."""

from __future__ import annotations

from lakecli.repository.sharing.fetch import Change, FetchReport, RefUpdate, fetch

__all__ = ["Change", "FetchReport", "RefUpdate", "fetch"]
