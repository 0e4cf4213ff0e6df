"""What must hold: the accumulated update is the update of one concatenated batch."""
