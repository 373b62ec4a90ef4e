"""The interface of `import l4slab`: run experiments, open results, make experiments in Python."""
