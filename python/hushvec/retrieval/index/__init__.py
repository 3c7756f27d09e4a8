"""The index: what it is asked for, what it holds, how rows come in and answers go out, what that costs, and how it is saved."""
