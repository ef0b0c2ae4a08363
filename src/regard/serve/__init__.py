"""Models served over HTTP: an API of JSON, and one page to try them and to see where they look.

Nothing here is imported by the rest: FastAPI, which it needs, is an extra (`pip install 'regard[serve]'`).
"""
