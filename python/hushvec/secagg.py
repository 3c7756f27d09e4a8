"""The short path of `hushvec.training.secagg`."""

from hushvec.training.secagg import Encoder, SumGuarantee, from_parameters, to_parameters, workflow_arguments

__all__ = ["Encoder", "SumGuarantee", "from_parameters", "to_parameters", "workflow_arguments"]
