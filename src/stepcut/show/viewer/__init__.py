"""The viewer: a page where a person looks at a procedure, annotates it, checks, compares and exports.

state.py       what the page shows; routes.py what it may ask for; answers.py what all routes share
security.py    who may ask; server.py starting and ending it
jobs.py        slow work in processes of its own; worker.py such a process; tasks.py what it does
checks.py      checked videos; choice.py files below one folder; export.py, signals.py
static/        the page: plain modules, no build; strings.js holds every text
"""
