"""Training: loss, schedules, optimizers, averages, checkpoints, and the loop that ties them."""
