"""Pages and images without torch: one HTML file that needs nothing but itself, and SVG."""
