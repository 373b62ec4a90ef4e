"""The page on which everything can be changed while it runs, and the server that adds engines to it.

`page` is the page itself, which needs no server: `document` with what a server tells it, `fragment` with a run's
set-up in its address. `server` gives it out on this machine only and connects each page with engines, each in a process
of its own (`session`; `sessions` is its other end), within `bounds`.

Requests and answers are those of docs/live.md.
"""
