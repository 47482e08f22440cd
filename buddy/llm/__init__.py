"""Model providers: everything that is specific to a vendor."""
