"""One folder a task: its data and loss, what reads with its models, scores, comparison, HTTP, export, command and demo.

Each has an object `TASK` that meets `regard.task.Task`; what several share of reading pictures is `picture_task.py`.
"""
