"""The paper's three learning tasks, by name."""

from tacthmc.paper.tasks.ready import METHODS as METHODS
from tacthmc.paper.tasks.ready import task as task
from tacthmc.paper.tasks.table import TASKS as TASKS
from tacthmc.paper.tasks.table import Task as Task
