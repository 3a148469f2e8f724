"""Key pairs and sessions."""

from __future__ import annotations

import base64

import pytest

from lakecli.serving import access
from lakecli.serving.access import EndpointAccess, new_key_pair


@pytest.fixture
def keys() -> EndpointAccess:
    return EndpointAccess("KEY", "sécret:1")


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_the_secret_belongs_to_one_key(keys: EndpointAccess) -> None:
    assert keys.secret_of("KEY") == "sécret:1"
    assert keys.secret_of("key") is None
    assert keys.secret_of("") is None


def test_a_key_pair_is_sent_by_basic_authentication(keys: EndpointAccess) -> None:
    assert keys.allows_basic(basic("KEY:sécret:1"))
    assert keys.allows_basic(basic("KEY:sécret:1").replace("Basic", "basic"))


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic !!!",
        "Basic /w==",
        basic("KEY:"),
        basic("KEY"),
        basic(":sécret:1"),
        basic("KEY:sécret:1 "),
        basic("KEY:sécret:1").replace("Basic", "Bearer"),
    ],
)
def test_every_other_header_is_refused(keys: EndpointAccess, header: str) -> None:
    assert not keys.allows_basic(header)


def test_a_link_begins_one_session(keys: EndpointAccess) -> None:
    token = keys.new_link_token()
    assert keys.begin_session(f"{token}x") is None
    session = keys.begin_session(token)
    assert session is not None
    assert session != token
    assert keys.allows_session(session)
    assert keys.begin_session(token) is None
    assert keys.begin_session("") is None


def test_a_new_link_replaces_the_last_one(keys: EndpointAccess) -> None:
    old, new = keys.new_link_token(), keys.new_link_token()
    assert keys.begin_session(old) is None
    assert keys.begin_session(new) is not None


def test_no_other_text_is_a_session(keys: EndpointAccess) -> None:
    for text in (None, "", "x"):
        assert not keys.allows_session(text)


def test_the_oldest_session_ends_when_there_are_many(keys: EndpointAccess) -> None:
    tokens = (keys.new_link_token() for _ in range(access.MOST_SESSIONS + 1))
    sessions = [keys.begin_session(each) for each in tokens]
    assert not keys.allows_session(sessions[0])
    assert all(map(keys.allows_session, sessions[1:]))


def test_key_pairs_are_random_and_plain() -> None:
    pairs = {new_key_pair() for _ in range(50)}
    assert len(pairs) == 50
    for name, secret in pairs:
        assert (name + secret).isalnum()
        assert len(name) == 20
        assert len(secret) == 40
