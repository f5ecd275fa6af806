"""The viewer: a page on this machine where a person looks at a procedure and corrects it.

state.py       what the page shows; app.py the routes; security.py who may ask
jobs.py        slow work in the background
server.py      starting and ending it
static/        the page: plain modules, no build
"""
