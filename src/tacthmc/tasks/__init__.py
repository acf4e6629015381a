"""The paper's three learning tasks, by name."""

from tacthmc.tasks.table import TASKS as TASKS
from tacthmc.tasks.table import Task as Task
from tacthmc.tasks.task import METHODS as METHODS
from tacthmc.tasks.task import task as task
