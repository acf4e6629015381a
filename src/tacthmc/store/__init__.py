"""Runs on disk: folders of arrays, checkpoints and programs."""

from tacthmc.store._errors import StoreError as StoreError
from tacthmc.store._folder import versions as versions
from tacthmc.store._pickles import NotPortableWarning as NotPortableWarning
from tacthmc.store._store import Store as Store
