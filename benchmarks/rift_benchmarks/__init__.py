"""Suites, the load client, metrics, validity, cost and reports."""
