"""What is said of results: claims, published values, bars, differences, and exports."""
