"""From planned runs to a results folder: executors, the store, remote folders, estimates."""
