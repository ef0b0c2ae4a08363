"""Classifying texts: texts in, classes out, with the attention that each word got."""
