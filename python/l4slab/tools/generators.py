"""Traces made from published models of links: what a file of `rate_trace` or `delay_trace` holds.

Each is a model with a few parameters, not a recording: it has the time scales and the spread of the technology that its
source describes, and nothing of a certain operator, place or device. The seed decides every number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

Rows = Iterator[tuple[float, float]]  # s, and Mbit/s or ms


@dataclass(frozen=True)
class Generator:
    """`make(random, seconds, scale)` gives the rows; `scale` is in the unit of `scaled`, 0: the source's own."""

    name: str
    is_delay: bool
    summary: str
    lacks: str
    source: str
    scaled: str
    make: Callable[[Random, float, float], Rows]


# Winstein, Sivaraman, Balakrishnan: Stochastic Forecasts Achieve High Throughput and Low Delay over Cellular Networks
# (NSDI 2013), section 3: MTU-sized packets per second.
_LTE_MOST = 1000.0
_LTE_NOISE = 200.0  # per root of a second
_LTE_ESCAPE = 1.0  # out of an outage, per second
_LTE_TICK_S = 0.02


def _lte(random: Random, seconds: float, most_mbps: float) -> Rows:
    scale = (most_mbps or _LTE_MOST * 1514 * 8e-6) / _LTE_MOST
    rate = random.uniform(0, _LTE_MOST)
    for tick in range(math.ceil(seconds / _LTE_TICK_S)):
        yield tick * _LTE_TICK_S, rate * scale
        if rate > 0:
            rate += random.gauss(0, _LTE_NOISE * math.sqrt(_LTE_TICK_S))
            # It is reflected at its most, and an outage lasts.
            rate = max(0.0, _LTE_MOST - abs(_LTE_MOST - rate))
        elif random.random() < -math.expm1(-_LTE_ESCAPE * _LTE_TICK_S):
            rate = abs(random.gauss(0, _LTE_NOISE * math.sqrt(_LTE_TICK_S)))


# Hoiland-Jorgensen et al.: Ending the Anomaly (USENIX ATC 2017): an aggregate takes up to 4 ms. IEEE 802.11: stations
# that have something to send win the medium with equal chances (Bianchi, JSAC 2000).
_WIFI_TXOP_S = 0.004
_WIFI_OTHERS = 3
_WIFI_MBPS = 200.0


def _wifi(random: Random, seconds: float, phy_mbps: float) -> Rows:
    time = 0.0
    sends: bool | None = None
    while time < seconds:
        wins = random.randrange(_WIFI_OTHERS + 1) == 0
        if wins != sends:
            yield time, (phy_mbps or _WIFI_MBPS) if wins else 0.0
        sends = wins
        # Backoff and preamble are part of it; the others' frames are as long on average, and vary.
        time += _WIFI_TXOP_S if wins else random.uniform(0.5, 1.5) * _WIFI_TXOP_S


# The shell at 550 km and its 25 degrees of elevation: SpaceX's filing SAT-MOD-20200417-00037 with the FCC. A new
# satellite every 15 s: Mohan et al., A Multifaceted Look at Starlink Performance (WWW 2024).
_LEO_HEIGHT_KM = 550.0
_LEO_LEAST_DEGREES = 25.0
_LEO_INTERVAL_S = 15.0
_LEO_STEP_S = 0.1
_EARTH_KM = 6371.0
_LIGHT_KM_PER_S = 299_792.458
_LEO_KM_PER_S = 7.6


def _leo(random: Random, seconds: float, height_km: float) -> Rows:
    height = height_km or _LEO_HEIGHT_KM
    farthest = _ground(height, math.radians(_LEO_LEAST_DEGREES))
    steps = round(_LEO_INTERVAL_S / _LEO_STEP_S)
    moved = _LEO_KM_PER_S * _EARTH_KM / (_EARTH_KM + height)
    for number in range(math.ceil(seconds / _LEO_STEP_S)):
        if number % steps == 0:
            # Where it is above the disc that is in sight, as an area; it goes straight on.
            radius, course = farthest * math.sqrt(random.random()), random.uniform(0, 2 * math.pi)
            x, y = radius, 0.0
        way = number % steps * _LEO_STEP_S * moved
        ground = min(math.hypot(x + way * math.cos(course), y + way * math.sin(course)), farthest)
        # Up to the satellite and down to a gateway near by, there and back.
        yield number * _LEO_STEP_S, 4 * _slant(height, ground) / _LIGHT_KM_PER_S * 1e3


def _ground(height: float, elevation: float) -> float:
    """The distance on the ground to the point below a satellite at this elevation, km."""
    angle = math.acos(_EARTH_KM * math.cos(elevation) / (_EARTH_KM + height)) - elevation
    return _EARTH_KM * angle


def _slant(height: float, ground: float) -> float:
    orbit, angle = _EARTH_KM + height, ground / _EARTH_KM
    return math.sqrt(_EARTH_KM**2 + orbit**2 - 2 * _EARTH_KM * orbit * math.cos(angle))


# White, Sundaresan, Briscoe: Low Latency DOCSIS, Technology Overview (2019): MAP intervals of 2 ms, in each of which
# a modem gets a grant of what it may send.
_DOCSIS_MAP_S = 0.002
_DOCSIS_CHANNEL_MBPS = 100.0
_DOCSIS_MBPS = 20.0


def _docsis(random: Random, seconds: float, mbps: float) -> Rows:
    rate = mbps or _DOCSIS_MBPS
    channel = max(_DOCSIS_CHANNEL_MBPS, 2 * rate)
    grant = _DOCSIS_MAP_S * rate / channel
    yield 0.0, 0.0
    for number in range(round(seconds / _DOCSIS_MAP_S)):
        # Where in the interval it lies is the scheduler's choice; two never touch.
        begin = number * _DOCSIS_MAP_S + random.uniform(0.001, 0.999) * (_DOCSIS_MAP_S - grant)
        yield begin, channel
        yield begin + grant, 0.0


GENERATORS = {
    one.name: one
    for one in (
        Generator(
            "lte",
            False,
            "a cellular link: the rate moves as a random walk (Brownian, 200 packets/s per root of a second) between 0 "
            "and 1000 packets/s, and outages last 1 s on average",
            "scheduling within 20 ms, handovers, other users",
            "Winstein et al., Stochastic Forecasts Achieve High Throughput and Low Delay over Cellular Networks "
            "(NSDI 2013)",
            "the highest rate, Mbit/s",
            _lte,
        ),
        Generator(
            "wifi",
            False,
            "a Wi-Fi station among three others that always send: aggregates of 4 ms at 200 Mbit/s, and silence while "
            "the others have the medium, which each wins with the same chance",
            "rate control, losses and retries, priorities",
            "Høiland-Jørgensen et al., Ending the Anomaly (USENIX ATC 2017); Bianchi (IEEE JSAC 18(3), 2000)",
            "the rate while it sends, Mbit/s",
            _wifi,
        ),
        Generator(
            "leo",
            True,
            "the round trip over a satellite at 550 km that is another one every 15 s, anywhere above 25 degrees, and "
            "moves on meanwhile",
            "way on the ground, scheduling in frames, losses at handovers, links between satellites; the "
            "gateway is as far away as the terminal",
            "FCC SAT-MOD-20200417-00037; Mohan et al., A Multifaceted Look at Starlink Performance (WWW 2024)",
            "the height, km",
            _leo,
        ),
        Generator(
            "docsis",
            False,
            "the upstream of a cable modem: in each MAP interval of 2 ms one grant, anywhere in it, of a channel of "
            "100 Mbit/s, 20 Mbit/s on average",
            "requests (grants come whether asked for or not), contention, other modems' load",
            "White, Sundaresan, Briscoe, Low Latency DOCSIS: Technology Overview (CableLabs 2019)",
            "the mean rate, Mbit/s",
            _docsis,
        ),
    )
}


def written(name: str, seed: int, seconds: float, scale: float) -> str:
    """The text of a trace; `scale` replaces the source's own, 0: does not."""
    generator = GENERATORS[name]
    scaled = f" --scale {scale:g}" if scale else ""
    lines = [
        f"# l4slab trace {name} --seed {seed} --duration {seconds:g}s{scaled}",
        f"# A model, not a recording: {generator.summary}.",
        f"# It has no {generator.lacks}.",
        f"# Source: {generator.source}.",
        f"time_s,{'rtt_ms' if generator.is_delay else 'rate_mbps'}",
    ]
    last, first = -1.0, 0.0
    for time, value in generator.make(Random(f"{name} {seed}"), seconds, scale):  # noqa: S311
        if last < round(time, 6) < seconds:
            last, first = round(time, 6), first or value
            lines.append(f"{_seconds(last)},{value:.4g}")
    # Where it begins again; if it does not, this holds.
    lines.append(f"{_seconds(seconds)},{first:.4g}")
    return "\n".join(lines) + "\n"


def _seconds(time: float) -> str:
    return f"{time:.6f}".rstrip("0").rstrip(".")
