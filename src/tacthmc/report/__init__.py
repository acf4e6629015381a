"""Reports: one HTML file that judges a run in plain words, with figures and tables."""

from tacthmc.report._page import write_report as write_report
from tacthmc.report._shown import ReferenceDensity as ReferenceDensity
from tacthmc.report._table import Table as Table
