"""The paper's Table 1: its cells as chains of few programs, in slices of minutes."""
