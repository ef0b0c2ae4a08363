"""Classifying pictures: pictures in, classes out."""
