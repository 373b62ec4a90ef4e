"""Tools that run many experiments to answer one question, and what looks after a machine."""
