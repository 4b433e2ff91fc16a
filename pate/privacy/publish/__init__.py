"""What makes a number publishable that depends on the votes: gates and smooth sensitivity."""
