"""Statements about results: claims, published values, bars, differences, and exports."""
