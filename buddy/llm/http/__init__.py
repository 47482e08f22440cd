"""The one HTTP engine: connections, proxies, certificates, limits."""
