"""Custom decoders: trained on public texts and their embeddings, saved as a checkpoint, loaded as an inverter.

settings    the settings of a run, the sizes of decoders, and the files in the folder of a run
corpus      texts, which of them are held out, their embeddings, their tokens, their batches
network     the model for a size, its weights as a checkpoint, and the noise on what it learns from
loop        steps, validation, checkpoints, the curve of the losses
training    `train_inverter`
inverter    `TrainedInverter`
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
