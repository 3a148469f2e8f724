"""What `lakecli doctor` tries on a store: `run` goes through the checks."""
