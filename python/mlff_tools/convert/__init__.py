"""Published parameters in their own formats, made into model files."""
