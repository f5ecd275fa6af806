"""`python -m stepcut` is `stepcut`."""

import sys

from stepcut.cli.main import main

sys.exit(main())
