"""How costs add up: accountant, filters, currencies, calibration, private selection, dp_accounting events."""
