"""The simulator's named random streams (`crates/core/src/rng.rs`), for draws that both engines make."""

from __future__ import annotations

_MASK = 2**64 - 1


def _rotated(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & _MASK


class Stream:
    """xoshiro256++, seeded with FNV-1a of name, seed and index through SplitMix64."""

    def __init__(self, seed: int, name: str, index: int):
        state = 0xCBF29CE484222325
        for byte in name.encode() + seed.to_bytes(8, "little") + index.to_bytes(8, "little"):
            state = ((state ^ byte) * 0x100000001B3) & _MASK
        self._s = []
        for _ in range(4):
            state = (state + 0x9E3779B97F4A7C15) & _MASK
            z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
            self._s.append(z ^ (z >> 31))

    def u64(self) -> int:
        """The next 64 bits."""
        s = self._s
        result = (_rotated((s[0] + s[3]) & _MASK, 23) + s[0]) & _MASK
        shifted = (s[1] << 17) & _MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= shifted
        s[3] = _rotated(s[3], 45)
        return result

    def below(self, n: int) -> int:
        """Uniform in [0, n); 0 for n = 0."""
        return (self.u64() * n) >> 64
