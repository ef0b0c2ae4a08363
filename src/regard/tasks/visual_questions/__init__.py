"""Answering questions about pictures: a picture and a question in, answers out."""
