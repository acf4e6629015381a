"""The paper's image data sets: found in a folder or downloaded, and made ready for a model."""

from tacthmc.data.corruption import corrupted as corrupted
from tacthmc.data.errors import DataError as DataError
from tacthmc.data.image_set import ImageSet as ImageSet
from tacthmc.data.load import load as load
from tacthmc.data.normalise import normalised as normalised
from tacthmc.data.shape import shaped as shaped
from tacthmc.data.validation import validation_split as validation_split
