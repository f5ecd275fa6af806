"""The app: every procedure below one folder, from videos to a checked procedure, in the browser.

workspace.py  the folder: its procedures, videos and labels
routes.py     what the start page asks for; each procedure has the routes of the viewer
watching.py   checks new videos in watched folders
"""
