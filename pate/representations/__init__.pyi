"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._base import Representation as Representation, RowMemory as RowMemory
from ._files import cached as cached, load as load
from ._join import (
    Chain as Chain,
    Combined as Combined,
    PublicPCA as PublicPCA,
    RandomFourier as RandomFourier,
    chain as chain,
    combine as combine,
)
from ._kernel import KernelPCA as KernelPCA, PublicNeighbours as PublicNeighbours
from ._module import FromModule as FromModule
from ._own import FromTransformer as FromTransformer, is_known_throughout as is_known_throughout
from ._tables import (
    AboveLeast as AboveLeast,
    GroupedRows as GroupedRows,
    PublicScale as PublicScale,
    TableMap as TableMap,
    TextMap as TextMap,
    UnitRows as UnitRows,
)
from ._base import (
    check_representation as check_representation,
    digest_of as digest_of,
    private_kind as private_kind,
)
from ._cells import TextCells as TextCells, ask_block as ask_block, n_rows as n_rows
from ._exact import ExactMap as ExactMap, OwnProduct as OwnProduct, one_sign as one_sign, own_product as own_product
