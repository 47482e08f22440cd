"""Settings and sessions of other programs of this kind, which are read and never changed."""
