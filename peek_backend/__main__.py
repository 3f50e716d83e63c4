"""``python -m peek_backend`` is ``peek``."""

import sys

from .cli import main

sys.exit(main())
