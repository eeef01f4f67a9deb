"""Certificates of models: `mlff certify MODEL [RECIPE]`. docs/certificate.md has what the numbers mean."""
