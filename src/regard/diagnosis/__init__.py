"""Find what is wrong with a trained model: measurements, checks and a report."""
