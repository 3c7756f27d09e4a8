"""Personal data in texts: rules to find it and placeholders to replace it. Heuristic, not differential privacy.

`categories` lists the kinds of personal data; each module of rules finds one kind; `spans` settles overlaps; `redactor` has the
public functions, which `hushvec.text` exports.
"""
