"""Safety of calls: policy, shell analysis, trust, secrets, sanitiser."""
