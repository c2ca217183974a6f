"""``python -m gateway.cli``: the same as the ``specroute`` command."""

from gateway.cli import main

main()
