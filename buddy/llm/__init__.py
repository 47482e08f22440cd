"""Who answers: everything that knows a vendor."""
