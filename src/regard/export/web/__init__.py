"""The scripts, style and page of `regard export --format web`."""
