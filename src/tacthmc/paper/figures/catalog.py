"""All studies by name."""

from tacthmc.paper.figures import dimension, fig1, fig2, fig3, free_energy, step_size, tuning
from tacthmc.paper.figures.study import Study

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY
    for module in (fig1, fig2, fig3, free_energy, step_size, dimension, tuning)
}
