"""Questions about images: the image is looked at with a question in mind, and one of a few answers is given.

The question takes the place of the target: it looks at the cells of an image encoder as a decoder's steps look at the
source, and its weights have the same axes. An answer is a class. Several questions about one image share its encoding.
"""
