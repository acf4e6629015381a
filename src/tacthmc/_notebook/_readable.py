"""Parts that a notebook shows as a table of their settings."""

from tacthmc._notebook._settings import settings
from tacthmc._notebook._table import table, text


class Readable:
    """A part whose fields a notebook shows.

    >>> import tacthmc
    >>> "step_size</td><td>0.01" in tacthmc.sgnht(0.01)._repr_html_()
    True
    """

    def _repr_html_(self) -> str:
        names = getattr(self, "__dataclass_fields__", {})
        fields = [(name, getattr(self, name, None)) for name in names]
        rows = [(name, settings(value)) for name, value in fields if value is not None]
        return f"<b>{text(type(self).__name__)}</b>{table((), rows)}"
