"""Arguments → settings → parts → a front end; exit codes."""
