"""Rate limits by the token bucket: a client may send as many requests at once as it may send in a minute."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

_MINUTE = 60.0


class RateLimits:
    """One bucket for each client; of clients beyond `most`, those that sent least recently are forgotten."""

    def __init__(self, most: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        """What was left in each bucket, and when."""

    def take(self, client: Hashable, rate: int) -> float:
        """Count a request of a client that may send `rate` a minute; return the seconds it must wait, 0 for none."""
        now = self._clock()
        left, since = self._buckets.pop(client, (float(rate), now))
        left = min(float(rate), left + (now - since) * rate / _MINUTE)
        wait = 0.0 if left >= 1 else (1 - left) * _MINUTE / rate
        self._buckets[client] = (left if wait else left - 1, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait


def network(address: str) -> str:
    """Return whom an address belongs to: of IPv6 its network of 64 bits, since one client has all of these."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = getattr(found, "ipv4_mapped", None)
    if found.version == 4 or mapped:
        return str(mapped or found)
    return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
