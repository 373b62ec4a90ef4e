"""The page on which users change a run in progress, and the server that adds engines to it.

`page` is the page itself, which needs no server: `document` with a server's facts, `fragment` with a run's set-up in
its address. `server` serves it on this machine only and connects each page with engines, each in a separate process
(`session`; `sessions` is the server's end), within `bounds`.

Requests and answers are those of docs/live.md.
"""
