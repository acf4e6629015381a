"""Everything that depends on JAX's compiler and on devices, kept apart from the mathematics."""

from tacthmc.compiler._cpu_devices import use_cpu_devices as use_cpu_devices
from tacthmc.compiler._cpu_flags import configure_cpu as configure_cpu
from tacthmc.compiler._materialize import computed_once as computed_once
