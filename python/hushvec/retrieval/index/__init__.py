"""The index: its settings and content, adding and searching, what that costs, and how it is saved."""
