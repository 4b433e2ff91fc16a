"""How a number that depends on the votes becomes publishable: gates and smooth sensitivity."""
