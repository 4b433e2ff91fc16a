"""Tables, images and arrays from files."""
