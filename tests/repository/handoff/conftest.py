from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.signing import let_sign

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository
    from tests.support.signing import SigningStore


@pytest.fixture
def store(repository: Repository) -> SigningStore:
    """The namespace of the repository, which has URLs."""
    return let_sign(repository)
