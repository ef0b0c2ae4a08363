"""What `regard demo` does: the whole road once, from data to pictures of where a model looks."""
