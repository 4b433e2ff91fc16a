"""Tests by which a wrong epsilon is found."""
