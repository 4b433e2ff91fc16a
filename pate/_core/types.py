"""Arrays by what is in them, named once for annotations."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
WordArray = npt.NDArray[np.uint64]
IndexArray = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
