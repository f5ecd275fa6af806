"""The app: learn, correct and check all procedures below one folder, in the browser.

workspace.py  the folder: its procedures, videos and labels
routes.py     routes of the start page; each procedure has the routes of the viewer
watching.py   checks new videos in watched folders
"""
