"""Training of inverters: decoders from embeddings to text, learned from public texts. `hushvec.text.TrainedInverter` loads them."""

from hushvec_studies.inverters.settings import SIZES as SIZES
from hushvec_studies.inverters.settings import DecoderSize as DecoderSize
from hushvec_studies.inverters.training import TrainingSummary as TrainingSummary
from hushvec_studies.inverters.training import train_inverter as train_inverter
