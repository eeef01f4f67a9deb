"""The HTML page of a folder of reports."""
