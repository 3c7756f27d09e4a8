"""The short path of `hushvec.training.secagg`."""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use

if TYPE_CHECKING:
    from hushvec.training.secagg import Encoder as Encoder
    from hushvec.training.secagg import SumGuarantee as SumGuarantee
    from hushvec.training.secagg import from_parameters as from_parameters
    from hushvec.training.secagg import to_parameters as to_parameters
    from hushvec.training.secagg import workflow_arguments as workflow_arguments

__getattr__, __dir__ = at_first_use(
    globals(), {"hushvec.training.secagg": "Encoder SumGuarantee from_parameters to_parameters workflow_arguments"}
)
