"""The viewer: a page on this machine where a person looks at a procedure and corrects it.

document.py    the steps and timelines as they stand, immutable
operations.py  what a person may change, as pure functions
edits.py       the list of changes: saved at once beside what was learned, undone and redone
app.py         the routes; security.py who may ask; jobs.py, proxy.py, checks.py, exports.py the slow or large answers
server.py      starting and ending it
static/        the page: plain modules, no build
"""
