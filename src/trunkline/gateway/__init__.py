"""One request's path: identify, read, admit, attempt, relay."""
