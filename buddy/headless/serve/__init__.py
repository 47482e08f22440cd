"""The page: a session in a browser, over HTTP and server-sent events."""
