"""Rewrite notes before they leave the machine: as public sentences, chunk by chunk, or each note as one private vector."""

import hushvec as hv
from hushvec.text import Rewriter, rewrite

NOTE = "Jane Doe missed two payments on her credit card; call her at (415) 555-2671."

# The default: the public sentence nearest to the note, or a random other one. Pure epsilon, and the whole output is covered.
# 320 sentences ship; inverter="public.txt" takes yours. A note that none of them is about gets one that does not fit.
result = rewrite(NOTE, epsilon=16.0)
print(result.output)
print(result.dp_line)

# Like published pipelines, chunk by chunk: placeholders replace personal data, everything else gets noise.
result = rewrite(NOTE, mechanism="gaussian", epsilon=16.0, delta=1e-3)
print(result.output)
print(result.dp_line)

# Each note as one vector, pure epsilon: if you need the vector as well.
budget = hv.PrivacyBudget(max_epsilon=32.0)
rewriter = Rewriter(mechanism="privunit", epsilon=16.0)
results = list(rewriter.rewrite_all([NOTE, "The train to the coast was full of hikers."], budget=budget))
for one in results:
    print(one.output)
    print(one.dp_line)

assert hv.verify_charges([one.receipt for one in results], budget.export()).status == "holds"
assert budget.remaining() == 0.0
