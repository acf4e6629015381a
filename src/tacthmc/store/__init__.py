"""Runs on disk: folders of arrays, checkpoints and programs."""

from tacthmc.store._errors import DamageWarning as DamageWarning
from tacthmc.store._errors import StoreError as StoreError
from tacthmc.store._folder import versions as versions
from tacthmc.store._pickles import NotPortableWarning as NotPortableWarning
from tacthmc.store._repair import Damage as Damage
from tacthmc.store._repair import find_damage as find_damage
from tacthmc.store._repair import repair as repair
from tacthmc.store._store import Store as Store
