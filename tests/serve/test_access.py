"""API keys and rate limits: who may ask, and how often; nothing of a key is ever shown."""

import logging
import pickle

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from regard.errors import ConfigError
from regard.serve.api_keys import ApiKeys
from regard.serve.app import make_app
from regard.serve.rate_limits import RateLimits, network
from regard.serve.request_limits import Limits

FIRST, SECOND = "first-key-of-the-test", "second-key-of-the-test"
OPEN = ("/", "/page.js", "/docs", "/openapi.json", "/health", "/ready", "/metrics")


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# the keys\n\n{FIRST}\n{SECOND} 2\n")
    return path


def test_nothing_under_api_is_answered_without_a_key(models, keys):
    with TestClient(make_app(models, keys=ApiKeys(keys))) as client:
        paths = client.get("/openapi.json").json()["paths"]
        guarded = [(method, path) for path in paths for method in paths[path] if path.startswith("/api/")]
        assert len(guarded) >= 8
        for method, path in guarded:
            for headers in ({}, bearer("nobody"), bearer(""), {"Authorization": f"Basic {FIRST}"}):
                answer = client.request(method, path, headers=headers)
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert client.request(method, path, headers=bearer(FIRST)).status_code != 401
            assert "security" in paths[path][method]
        for path in OPEN:
            assert client.get(path).status_code == 200


def test_every_path_that_works_for_clients_needs_a_key_wherever_it_is_sent(models, keys):
    """Also those that are not described; their keys may be in the body, so each has to call `Access.admit` itself."""
    app = make_app(models, keys=ApiKeys(keys))
    posts = [path for path, methods in every_route(app.router) if "POST" in methods]
    assert "/api/translate" in posts
    with TestClient(app) as client:
        for path in posts:
            assert client.post(path).status_code in (401, 403), path


def every_route(router):
    for route in router.routes:
        inner = getattr(route, "original_router", None) or getattr(route, "router", None)
        if inner is not None:
            yield from every_route(inner)
        elif hasattr(route, "path"):
            yield route.path, getattr(route, "methods", None) or set()


def test_a_key_may_have_a_rate_of_its_own(models, keys):
    with TestClient(make_app(models, Limits(rate=3), keys=ApiKeys(keys))) as client:
        for key, rate in ((FIRST, 3), (SECOND, 2)):
            found = [client.get("/api/models", headers=bearer(key)) for _ in range(rate + 1)]
            assert [each.status_code for each in found] == [200] * rate + [429]
            assert 0 < int(found[-1].headers["retry-after"]) <= 60
        assert client.get("/health").status_code == 200
        refusals = client.get("/metrics").text
        assert 'regard_refusals_total{reason="rate"} 2.0' in refusals


def test_without_keys_an_address_has_the_rate(models):
    with TestClient(make_app(models, Limits(rate=2))) as client:
        assert [client.get("/api/models").status_code for _ in range(3)] == [200, 200, 429]
    with TestClient(make_app(models, Limits(rate=2)), client=("10.0.0.1", 1)) as client:
        assert client.get("/api/models").status_code == 200


def test_keys_are_read_again_and_a_broken_file_changes_nothing(keys, caplog):
    own = ApiKeys(keys)
    assert own.find(FIRST)
    keys.write_text(SECOND)
    assert own.find(FIRST)
    assert own.reload()
    assert own.find(FIRST) is None
    assert own.find(SECOND).rate is None
    keys.write_text("short\n")
    with caplog.at_level(logging.ERROR):
        assert not own.reload()
    assert own.find(SECOND)
    assert "the key has 5 characters; at least 16 are needed" in caplog.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has none: write one key a line"),
        (f"{FIRST}\n{FIRST}", "line 2: this key is there twice"),
        (f"{FIRST} many", "line 1: after the key there may be its requests a minute"),
        (f"{FIRST} 1 2", "line 1: after the key"),
        (f"{FIRST} -1", "line 1: after the key"),
    ],
)
def test_a_file_of_keys_that_is_wrong_is_told_without_the_keys(tmp_path, text, said):
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(ConfigError) as told:
        ApiKeys(path)
    assert said in str(told.value)
    assert FIRST not in str(told.value)
    with pytest.raises(ConfigError, match="cannot be read: no such file"):
        ApiKeys(tmp_path / "none")


def test_keys_are_not_kept(keys):
    own = ApiKeys(keys)
    assert FIRST.encode() not in pickle.dumps(own)
    assert FIRST not in repr(own.__dict__)


@given(st.integers(1, 50), st.lists(st.floats(0, 30), max_size=200))
def test_no_minute_has_more_than_the_bucket_and_what_drips_into_it(rate, pauses):
    now, taken = 0.0, []
    limits = RateLimits(clock=lambda: now)
    for pause in pauses:
        now += pause
        wait = limits.take("a", rate)
        assert (wait == 0) == (limits.take("b", 10_000) == 0 and wait == 0)
        if wait == 0:
            taken.append(now)
        else:
            now += wait + 1e-6
            assert limits.take("a", rate) == 0
            taken.append(now)
    for place, end in enumerate(taken):
        assert sum(end - 60 <= each for each in taken[: place + 1]) <= 2 * rate


def test_the_buckets_of_many_clients_take_little_memory():
    limits = RateLimits(most=10)
    for client in range(1_000):
        limits.take(client, 5)
    assert len(limits._buckets) == 10


def test_an_address_of_ipv6_counts_with_its_network():
    assert network("2001:db8:1:2:3::4") == network("2001:db8:1:2::9") != network("2001:db8:1:3::9")
    assert network("::ffff:10.0.0.1") == "10.0.0.1"
    assert network("testclient") == "testclient"


def test_pages_of_other_origins_are_allowed_only_by_name(models):
    origin = {"Origin": "https://example.org"}
    with TestClient(make_app(models)) as client:
        assert "access-control-allow-origin" not in client.get("/api/models", headers=origin).headers
    with TestClient(make_app(models, origins=["https://example.org"])) as client:
        assert client.get("/api/models", headers=origin).headers["access-control-allow-origin"] == origin["Origin"]
        other = client.get("/api/models", headers={"Origin": "https://example.com"})
        assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize(("proxies", "statuses"), [((), [200, 429]), (("127.0.0.1",), [200, 200])])
def test_only_a_trusted_proxy_says_whose_request_it_is(models, proxies, statuses):
    app = make_app(models, Limits(rate=1))
    wrapped = ProxyHeadersMiddleware(app, trusted_hosts=list(proxies)) if proxies else app
    with TestClient(wrapped, client=("127.0.0.1", 1)) as client:
        found = [client.get("/api/models", headers={"X-Forwarded-For": f"10.0.0.{n}"}).status_code for n in (1, 2)]
    assert found == statuses
