"""Data sets, and the training of students."""
