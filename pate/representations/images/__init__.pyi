"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._augment import Augmentation as Augmentation, views_of as views_of
from ._pixels import ImageCells as ImageCells, ImageMap as ImageMap, Pixels as Pixels, Scattering as Scattering
from ._self_supervised import SelfSupervised as SelfSupervised
