"""Detection by attention (Carion et al. 2020), small: object queries look at an image's cells, all at once.

Each query answers with a class or "nothing", a box, and on request a mask. Which query answers for which object is
decided by the cheapest assignment (`matching`), so queries learn to find nothing twice, and nothing is suppressed
afterwards: what a short training leaves double stays double.
"""
