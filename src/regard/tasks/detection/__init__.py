"""Detecting objects: pictures in, boxes, classes and masks out."""
