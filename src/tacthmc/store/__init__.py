"""A run on disk: draws as Zarr, checkpoints, config, and what is needed to go on."""
