"""New projects and parts of projects, made from templates."""
