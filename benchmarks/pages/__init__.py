"""The tables and numbers of README, docs and research, from the records.

:func:`expected` gives a page's text as the records have it. A table stands between
``<!-- table: NAME -->`` and ``<!-- end -->``; NAME is one of :data:`TABLES` or a folder of
``results``. A number in a sentence is followed by ``<!-- FILE.json: EXPRESSION -->``, where ``r``
is the file's content and ``np`` is NumPy.
"""

from benchmarks.pages.fill import BLOCK as BLOCK
from benchmarks.pages.fill import NUMBER as NUMBER
from benchmarks.pages.fill import PAGES as PAGES
from benchmarks.pages.fill import TABLES as TABLES
from benchmarks.pages.fill import PageError as PageError
from benchmarks.pages.fill import expected as expected
from benchmarks.pages.fill import filled as filled
