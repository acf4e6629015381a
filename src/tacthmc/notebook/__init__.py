"""What notebooks show: small tables of HTML, in which every name is escaped."""

from tacthmc.notebook._readable import Readable as Readable
from tacthmc.notebook._settings import settings as settings
from tacthmc.notebook._table import table as table
from tacthmc.notebook._table import text as text
