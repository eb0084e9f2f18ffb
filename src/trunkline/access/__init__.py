"""Who asks, and with what: the keys that callers come in with."""
