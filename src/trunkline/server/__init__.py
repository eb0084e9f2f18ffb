"""What listens: the ASGI application, apart from any framework on the path of a call."""
