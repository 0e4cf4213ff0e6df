"""What is observed: clock, memory, device."""
