"""The viewer: a page on this machine where a person looks at a procedure and corrects it.

app.py         the routes; answers.py what requests and answers look like; security.py who may ask
jobs.py        slow work in the background; proxy.py, checks.py, exports.py the slow or large answers
server.py      starting and ending it
static/        the page: plain modules, no build
"""
