"""What speed needs of JAX and XLA, behind one wall: the mathematics does not see it."""

from tacthmc.compiler._cpu_devices import use_cpu_devices as use_cpu_devices
from tacthmc.compiler._cpu_flags import configure_cpu as configure_cpu
