"""The environments of l4slab.gym."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from l4slab import Experiment, Flow, InputError, Link, gym
from l4slab.gym.steps import State, seen

BOTTLENECK = {"bottleneck": Link(rate="20Mbit", qdisc="dualpi2")}
MINE = Flow(name="mine", cc="prague", rtt="20ms")
ALONE = Experiment(duration="10s", links=BOTTLENECK, flows=[MINE])
BOTH = Experiment(
    duration="10s",
    links=BOTTLENECK,
    flows=[Flow(name="l4s", cc="prague", rtt="20ms"), Flow(name="classic", cc="cubic", rtt="20ms")],
)
TARGET = {"target": ("2ms", "40ms")}


def at(env, action: list[float], steps: int, seed: int = 1) -> list[tuple]:
    """What the steps of an episode give."""
    env.reset(seed=seed)
    return [env.step(np.array(action, np.float32)) for _ in range(steps)]


@pytest.mark.parametrize("env", [gym.ControllerEnv(ALONE), gym.QueueEnv(BOTH, TARGET)], ids=["controller", "queue"])
def test_it_is_an_environment(env) -> None:
    check_env(env, skip_render_check=True)


def test_the_same_seed_and_actions_give_the_same_numbers() -> None:
    first, again, other = (at(gym.ControllerEnv(ALONE), [0.05], 200, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a[0], b[0]) and a[1:] == b[1:] for a, b in zip(first, again, strict=True))
    assert any(a[1:] != b[1:] for a, b in zip(first, other, strict=True))


def test_a_window_below_the_bdp_gives_a_window_per_rtt() -> None:
    """10 segments of 1448 B each 20 ms are 5.8 Mbit/s, without a queue."""
    infos = [info for *_, info in at(gym.ControllerEnv(ALONE), [0.0], 300)[100:]]
    assert {info["cwnd"] for info in infos} == {10.0}
    rate = np.mean([info["rate_mbps"] for info in infos])
    assert rate == pytest.approx(10 * 1448 * 8e-6 / 0.02, rel=0.02)
    assert max(info["queueing_ms"] for info in infos) < 1
    assert sum(info["marked"] + info["lost"] for info in infos) == 0


def test_a_window_beyond_the_bdp_fills_the_link_and_is_marked() -> None:
    env = gym.ControllerEnv(ALONE)
    env.reset(seed=1)
    steps = [env.step(np.array([1.0 if i < 3 else 0.0], np.float32)) for i in range(300)][100:]
    infos = [info for *_, info in steps]
    assert np.mean([info["rate_mbps"] for info in infos]) == pytest.approx(20 * 1448 / 1514, rel=0.02)
    # 80 segments, of which 33 are on the way: the rest waits.
    assert np.mean([info["queueing_ms"] for info in infos]) > 20
    assert sum(info["marked"] for info in infos) > 1000


def test_levels_are_drawn_anew() -> None:
    env = gym.ControllerEnv(
        Experiment(duration="1s", links=BOTTLENECK, flows=[MINE], sweep={"link.bottleneck.rate": ["5Mbit", "50Mbit"]})
    )
    rates = {at(env, [0.0], 1, seed)[0][4]["link_mbps"] for seed in range(12)}
    assert rates == {5.0, 50.0}


def test_an_episode_is_truncated_at_its_end() -> None:
    steps = at(gym.ControllerEnv(ALONE, step="20ms", episode="1s"), [0.0], 50)
    assert [truncated for _, _, _, truncated, _ in steps] == [False] * 49 + [True]


def test_a_reward_of_ones_own() -> None:
    steps = at(gym.ControllerEnv(ALONE, reward=lambda step: step.rate_mbps), [0.0], 20)
    assert all(reward == info["rate_mbps"] for _, reward, _, _, info in steps)


def test_the_target_of_a_queue_moves_the_delay_of_c() -> None:
    def delay(action: float) -> float:
        steps = at(gym.QueueEnv(BOTH, TARGET), [action], 200)[100:]
        return float(np.mean([info["queues"]["C"]["delay_ms"] for *_, info in steps]))

    low, high = delay(-1.0), delay(1.0)
    assert low < 6
    assert 25 < high < 50


def test_nothing_is_lost_when_parameters_change() -> None:
    """Packets that wait stay: of a FIFO's kind of load only what the queue itself drops is dropped."""
    env = gym.QueueEnv(ALONE, TARGET)
    env.reset(seed=1)
    random = np.random.default_rng(1)
    infos = [env.step(random.uniform(-1, 1, 1).astype(np.float32))[4] for _ in range(100)]
    # What is ECT(1) is marked and not dropped.
    assert sum(info["queues"]["all"]["dropped"] for info in infos) == 0
    assert max(info["utilisation"] for info in infos) > 0.9


def test_what_is_seen_of_a_step() -> None:
    before, now = State(100, 10, 0, 20_000, 20_000, 10), State(110, 15, 5, 25_000, 20_000, 12)
    told = seen(before, now, 20.0, 0.01)
    assert told == pytest.approx((0.25, 0.25, 0.5, 1 / 3, 1.0, 0.6, np.log2(20) / 11))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: gym.ControllerEnv(BOTH), "name the one whose window the agent holds: l4s, classic"),
        (lambda: gym.ControllerEnv(BOTH, "clasic"), 'did you mean "classic"?'),
        (lambda: gym.ControllerEnv(ALONE, step="10"), 'step = "10" has no unit'),
        (lambda: gym.QueueEnv(BOTH, {"target": ("5ms", "1ms")}), "the least first"),
        (lambda: gym.QueueEnv(BOTH, {"targt": ("1ms", "5ms")}), "targt"),
        (lambda: gym.QueueEnv(BOTH, {}), "parameters is empty"),
    ],
)
def test_a_mistake_is_a_sentence(make, sentence: str) -> None:
    with pytest.raises(InputError) as told:
        make()
    assert sentence in str(told.value)
