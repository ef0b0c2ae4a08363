"""Visual question answering: attention to an image given a question, and a choice among a few answers.

The question takes the place of the target: it attends to the cells of an image encoder as a decoder's steps attend to
the source, and its weights have the same axes. An answer is a class. Questions about one image share its encoding.
"""
