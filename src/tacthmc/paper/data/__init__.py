"""The paper's image data sets: reading, downloading and preparing them."""

from tacthmc.paper.data.corruption import corrupted as corrupted
from tacthmc.paper.data.errors import DataError as DataError
from tacthmc.paper.data.image_set import ImageSet as ImageSet
from tacthmc.paper.data.loading import load as load
from tacthmc.paper.data.normalize import normalized as normalized
from tacthmc.paper.data.shape import shaped as shaped
from tacthmc.paper.data.validation import validation_split as validation_split
