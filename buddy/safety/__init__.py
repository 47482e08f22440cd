"""What it may do: policy, shell analysis, trust, secrets, the sanitiser."""
