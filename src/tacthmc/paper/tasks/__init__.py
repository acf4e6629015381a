"""The paper's three learning tasks, by name."""

from tacthmc.paper.tasks.table import TASKS as TASKS
from tacthmc.paper.tasks.table import Task as Task
from tacthmc.paper.tasks.task import METHODS as METHODS
from tacthmc.paper.tasks.task import task as task
