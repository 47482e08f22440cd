"""File search: patterns, ignore rules, the walk, the matchers."""
