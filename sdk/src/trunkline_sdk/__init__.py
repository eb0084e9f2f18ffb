"""What authors of clients, daemons and extensions build on; it imports nothing of the server."""
