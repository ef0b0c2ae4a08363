"""Serve models over HTTP: a JSON API, and a web page to try models and see their attention.

It needs FastAPI, an optional extra (`pip install 'regard[serve]'`), so nothing else imports it.
"""
