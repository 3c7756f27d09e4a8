"""Personal data in texts: rules that find it, placeholders that take its place. Heuristic; no differential privacy.

`categories` says what there is to find; each module of rules finds one sort of it; `spans` settles overlaps; `redactor` has the
public functions, which `hushvec.text` exports.
"""
