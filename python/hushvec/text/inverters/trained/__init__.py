"""Custom decoders: trained on public texts and their embeddings, saved as a checkpoint, loaded as an inverter.

settings    the settings of a run, and the sizes of decoders
corpus      texts of a file or a list, and which of them are held out
vectors     their embeddings, computed once and kept
noise       the embeddings as a mechanism would release them, fresh at every step
vocabulary  byte pairs learned from the texts
network     the model for a size, and its weights as a checkpoint
folder      what stands where in the folder of a run, and which run it belongs to
training    the run itself: batches, steps, validation, checkpoints
curve       the losses as CSV and as a figure
inverter    TrainedInverter
"""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use

if TYPE_CHECKING:
    from hushvec.text.inverters.trained.inverter import TrainedInverter
    from hushvec.text.inverters.trained.settings import SIZES, DecoderSize
    from hushvec.text.inverters.trained.training import TrainingSummary, train_inverter

__all__ = ["SIZES", "DecoderSize", "TrainedInverter", "TrainingSummary", "train_inverter"]

__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "SIZES": "settings",
        "DecoderSize": "settings",
        "TrainedInverter": "inverter",
        "TrainingSummary": "training",
        "train_inverter": "training",
    },
)
