"""The engine `real`: the same run with this machine's kernel, real programs and the core's links, in real time."""
