"""The paper's figures, tables, tasks, networks and data sets, made with the library."""
