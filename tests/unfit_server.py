"""Makes a fork server that no rank should be forked from: it runs a second thread. Preloaded by a test."""

from __future__ import annotations

import threading

threading.Thread(target=threading.Event().wait, daemon=True).start()
