from __future__ import annotations

from hypothesis import settings

# No deadline: a busy machine is not a failure. The same examples every time: a red run can be repeated.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
