"""Quantities: what they mean, exactly, and what is refused."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l4slab.base.units import RATE, SIZE, TIME, Dimension, si


@pytest.mark.parametrize(
    ("dimension", "text", "value"),
    [
        (RATE, "100Mbit", 100_000_000),
        (RATE, "1Gbit", 1_000_000_000),
        (RATE, "2.5 Gbit", 2_500_000_000),
        (RATE, "64kbit", 64_000),
        (RATE, "9600bit", 9600),
        (RATE, "10mbit", 10_000_000),
        (RATE, "10Mbit/s", 10_000_000),
        (TIME, "15ms", 15_000_000),
        (TIME, "200us", 200_000),
        (TIME, "5µs", 5_000),
        (TIME, "0.1s", 100_000_000),
        (TIME, "1min", 60_000_000_000),
        (TIME, "0s", 0),
        (SIZE, "1500B", 1500),
        (SIZE, "1MB", 1_000_000),
        (SIZE, "64kB", 64_000),
        (SIZE, "64KiB", 65_536),
    ],
)
def test_value(dimension: Dimension, text: str, value: int) -> None:
    assert dimension.parse(text) == value


@pytest.mark.parametrize(
    ("dimension", "text", "remedy"),
    [
        (RATE, "100Mbps", '"100Mbit"'),
        (RATE, "5kbps", '"5kbit"'),
        (RATE, "100Mb/s", '"100Mbit"'),
        (RATE, "12MBps", "multiply by 8"),
        (RATE, "50MB", 'is in bytes, and a rate is in bits; write "400Mbit"'),
        (RATE, "50MB", '"50Mbit" if you mean bits'),
        (RATE, "1.5GiB", '"12.88490189Gbit"'),
        (SIZE, "12kbit", 'is in bits, and a size is in bytes; write "1.5kB"'),
        (RATE, "100Mbits", '"Mbit"'),
        (RATE, "100", "units: bit"),
        (RATE, 100, "units: bit"),
        (RATE, True, '"100Mbit"'),
        (RATE, ["1bit"], '"100Mbit"'),
        (RATE, "15ms", "bit"),
        (RATE, "0.1bit", "smallest"),
        (TIME, "1m", '"1min"'),
        (TIME, "1e30s", "too large"),
        (TIME, "ms", '"15ms"'),
        (TIME, "", '"15ms"'),
        (TIME, "1 2ms", "ms"),
        (SIZE, "10K", '"10kB"'),
        (SIZE, "10kb", '"10KiB"'),
    ],
)
def test_refused(dimension: Dimension, text: object, remedy: str) -> None:
    with pytest.raises(ValueError, match=re.escape(remedy)):
        dimension.parse(text)


@given(st.integers(0, 10**9), st.sampled_from(["ns", "us", "ms", "s"]))
def test_times_are_exact(number: int, unit: str) -> None:
    assert TIME.parse(f"{number}{unit}") == number * {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}[unit]


@given(st.text(max_size=12))
def test_any_text_is_a_value_or_a_mistake_of_the_user(text: str) -> None:
    for dimension in (RATE, TIME, SIZE):
        with suppress(ValueError):
            assert isinstance(dimension.parse(text), int)


def test_si() -> None:
    assert si("5ms") == 0.005
    assert si("100Mbit") == 1e8
    assert si("64kB") == 64_000
    assert si("FIFO") == "FIFO"
    assert si(2) == 2
