"""Every sampler on five models, by simulation: models, samplers, what is expected, and records."""
