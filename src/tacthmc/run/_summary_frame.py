"""The rows of a summary as a pandas DataFrame."""

from typing import Any

from tacthmc._checks import missing_extra
from tacthmc.run._parameters import Parameter

COLUMNS = {
    "mean": "mean",
    "sd": "sd",
    "q5": "5%",
    "median": "50%",
    "q95": "95%",
    "mcse": "mcse",
    "ess": "ess_bulk",
    "ess_tail": "ess_tail",
    "rhat": "rhat",
}
"""The names of the columns by the fields of a row."""


def dataframe(rows: list[Parameter]) -> Any:
    """The rows with the names of parameters as index."""
    try:
        import pandas as pd
    except ImportError as error:
        raise missing_extra("a DataFrame", "pandas", "report") from error
    data = {title: [getattr(row, name) for row in rows] for name, title in COLUMNS.items()}
    return pd.DataFrame(data, index=pd.Index([row.name for row in rows], name="parameter"))
