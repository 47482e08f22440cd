"""File access, ignore rules, file versions and child processes."""
