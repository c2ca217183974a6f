"""Make a virtual environment with pip in it, also where Debian left ensurepip out.

Usage: python3 tools/mkvenv.py .venv
"""

import importlib.util
import subprocess
import sys
import venv
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - the check is for the person who runs it with an older one
    sys.exit(f"python 3.11 or newer is needed, this is {sys.version.split()[0]}: make PYTHON=python3.11 ...")

target = Path(sys.argv[1])
if importlib.util.find_spec("ensurepip"):
    venv.create(target, with_pip=True, clear=True)
elif importlib.util.find_spec("pip"):
    venv.create(target, with_pip=False, clear=True)
    subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "pip", "--python", str(target / "bin" / "python"), "install", "-q", "pip"],
        check=True,
    )
else:
    sys.exit("this python3 has neither ensurepip nor pip: on Debian, apt-get install python3-venv")
