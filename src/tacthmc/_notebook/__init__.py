"""What notebooks show: small tables of HTML, in which every name is escaped."""

from tacthmc._notebook._readable import Readable as Readable
from tacthmc._notebook._settings import settings as settings
from tacthmc._notebook._table import table as table
from tacthmc._notebook._table import text as text
