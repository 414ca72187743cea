"""One thread for each worker: tests run side by side, and many small arrays gain nothing from more."""

import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run: what fails is the change's fault, and neither chance nor how busy the machine is.
# ``make test-slow`` draws new ones, and more.
settings.register_profile("same", derandomize=True, suppress_health_check=[HealthCheck.too_slow])
if not os.environ.get("LOGOFAIR_ALL_EXAMPLES"):
    settings.load_profile("same")
