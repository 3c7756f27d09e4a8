"""Shared by the studies: measurements that are kept, processes, embedding caches, tables, charts and LaTeX."""
