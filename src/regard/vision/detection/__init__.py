"""Object detection by attention (Carion et al. 2020), in a small form: object queries attend to the cells of an image.

Each query predicts a class or "nothing", a box, and on request a mask. In training the cheapest assignment (`matching`)
decides which query is matched to which object, so queries learn not to find an object twice. There is no non-maximum
suppression: duplicates that remain after a short training stay.
"""
