"""Train the window of a flow in a minute, and write it down as a controller of one's own.

    python train.py [--seconds 45]          # writes learned.py
    l4slab check learned.py:Learned         # the verdicts on it

The policy is linear in what l4slab.gym tells of a step. The cross-entropy method finds it: of a population of random
policies the best are kept, and the next population is drawn around them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import l4slab
import numpy as np
from l4slab import gym
from l4slab.gym.steps import FEATURES

HERE = Path(__file__).parent
POPULATION, KEPT, EPISODES = 24, 6, 6
# What the search begins with: grow, but not where a queue is. From nothing, it finds that who sends little has none.
GROWTH, START = 0.2, {"queue": -1.0, "marked": -1.0}

LEARNER = l4slab.Experiment(
    name="learner",
    duration="4s",
    links={"bottleneck": l4slab.Link(rate="20Mbit", qdisc="dualpi2")},
    flows=[l4slab.Flow(name="learner", cc="prague", rtt="20ms")],
    sweep={"link.bottleneck.rate": ["10Mbit", "40Mbit", "100Mbit"], "flow.learner.rtt": ["10ms", "40ms"]},
)


def value(env: gym.ControllerEnv, weights: np.ndarray, seed: int) -> float:
    """The mean reward of a policy over a few episodes."""
    total = steps = 0.0
    for episode in range(EPISODES):
        seen, _ = env.reset(seed=seed + episode)
        over = False
        while not over:
            seen, reward, _, over, _ = env.step(np.tanh(weights[:1] + seen @ weights[1:, None])[0:1])
            total, steps = total + reward, steps + 1
    return total / steps


def main() -> None:
    """Train, and write `learned.py`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=45, help="of training (default: 45)")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--out", type=Path, default=HERE / "learned.py")
    chosen = options.parse_args()
    env = gym.ControllerEnv(LEARNER, step="10ms", episode="3s")
    random = np.random.default_rng(chosen.seed)
    mean = np.array([GROWTH, *(START.get(feature, 0.0) for feature in FEATURES)])
    spread = np.full(len(mean), 0.5)
    until, generation = time.monotonic() + chosen.seconds, 0
    while time.monotonic() < until:
        drawn = mean + spread * random.standard_normal((POPULATION, len(mean)))
        # All are judged by the same episodes.
        values = np.array([value(env, one, chosen.seed) for one in drawn])
        best = drawn[np.argsort(values)[-KEPT:]]
        mean, spread = best.mean(0), best.std(0) + 0.01
        generation += 1
        print(f"generation {generation}: mean reward {values.mean():.3f}, best {values.max():.3f}", flush=True)
    text = (HERE / "learned.py.in").read_text()
    chosen.out.write_text(text.replace("WEIGHTS = ()", f"WEIGHTS = {tuple(round(float(w), 4) for w in mean)}"))
    print(f"written: {chosen.out}")


if __name__ == "__main__":
    main()
