"""The report: one HTML file that says in plain words how a run went, and shows it."""

from tacthmc.report.page import write_report as write_report
