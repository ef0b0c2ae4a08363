"""One folder per task: its data, loss, inference, scores, comparison, HTTP endpoint, export, command and demo.

The `TASK` object of each folder implements `regard.task.Task`; `picture_task.py` is the base of the picture tasks.
"""
