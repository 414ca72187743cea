"""One thread for each worker: tests run side by side, and many small arrays gain nothing from more."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
