"""Modules of the programs that run an exported model with only NumPy and onnxruntime.

`regard export` copies a task's program into the export folder as `run.py`, with the modules that it imports from here.
They do not import the rest of the package.
"""
