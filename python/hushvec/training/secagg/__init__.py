"""Secure aggregation: vectors as whole numbers modulo 2^bits, whose sum over all clients is differentially private.

    from hushvec.secagg import Encoder
    encoder = Encoder(dimension=1000, clip_norm=1.0, bits=16, clients=100, epsilon=2.0, delta=1e-5)
    integers = encoder.encode(vector)               # on each client
    mean = encoder.decode(total)                    # on the server, which learns nothing but the sum modulo 2^bits

The noise is shared out among the clients, and is about that of a trusted server. docs/federated.md is the guide, docs/proofs/secagg.md
the proof.
"""

from hushvec._util.lazy import at_first_use

with at_first_use(globals()):
    from hushvec.training.secagg.encoder import Encoder, SumGuarantee, from_parameters, to_parameters, workflow_arguments

__all__ = ["Encoder", "SumGuarantee", "from_parameters", "to_parameters", "workflow_arguments"]
