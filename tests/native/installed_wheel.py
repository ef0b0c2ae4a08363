"""Run where a wheel was installed, without a compiler: the decoder is the wheel's, and it multiplies.

pip install regard-….whl && CXX=c++-that-is-not-there python tests/native/installed_wheel.py
"""

import sys
from pathlib import Path

import numpy as np

import regard
from regard.native.library import SHIPPED, library

found = library()
print(regard.__file__, found.words, sep="\n")
if found.calls is None or f", in {SHIPPED}" not in found.words:
    sys.exit("The wheel has no decoder for this processor.")
if not any(path.name in found.words for path in Path(SHIPPED).glob("decoder-*.so")):
    sys.exit("The decoder is not one of the wheel's.")
x, weight = np.eye(3, 5, dtype=np.float32), np.arange(35, dtype=np.float32).reshape(7, 5)
bias, y = np.zeros(7, np.float32), np.empty((3, 7), np.float32)
found.calls.regard_product(x.ctypes.data, 3, weight.ctypes.data, bias.ctypes.data, 7, 5, 0, y.ctypes.data)
if not np.array_equal(y, x @ weight.T):
    sys.exit("The decoder multiplies wrongly.")
