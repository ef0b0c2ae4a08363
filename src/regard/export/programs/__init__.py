"""Programs that run an exported model with NumPy and onnxruntime alone.

`regard export` copies the one for a model's task into its folder as `run.py`, and beside it what that imports from
here. They know nothing of the rest of the package: all they need is in the folder.
"""
