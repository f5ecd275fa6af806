"""The viewer: a web page that shows, annotates, checks, compares and exports a procedure.

state.py       state of the page; routes.py its routes; answers.py shared parts of routes
security.py    access control; server.py start and stop
jobs.py        slow work in separate processes; worker.py such a process; tasks.py its work
checks.py      checked videos; choice.py files below one folder; export.py, signals.py
static/        the page: plain modules without a build; strings.js has every text
"""
