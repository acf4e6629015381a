"""The samplers: one file each, all with ``init`` and ``step``."""
