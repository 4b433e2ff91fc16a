"""How costs add up: accountant, filters, accounting units, calibration, private selection, dp_accounting events."""
