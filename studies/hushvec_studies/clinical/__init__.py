"""The clinical study: what local noise of each kind leaves of patients' vectors in 1920 dimensions, and what it really costs."""
