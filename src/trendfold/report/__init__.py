"""Results to look at: a page for a browser, a chart for a notebook (docs/reports.md)."""

from trendfold.report.charts import chart_of
from trendfold.report.view import view_of
from trendfold.report.whole_page import failure_page, report_page

__all__ = ["chart_of", "failure_page", "report_page", "view_of"]
