"""A run on disk: draws as Zarr, checkpoints, config, and what is needed to go on."""

from tacthmc.store._errors import StoreError as StoreError
from tacthmc.store._folder import versions as versions
from tacthmc.store._pickles import NotPortableWarning as NotPortableWarning
