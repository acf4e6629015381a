"""The report: one HTML file that says in plain words how a run went, and shows it."""

from tacthmc.report._page import write_report as write_report
from tacthmc.report._shown import Truth as Truth
from tacthmc.report._table import Table as Table
