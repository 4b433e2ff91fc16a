"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._contract import (
    check_apart as check_apart,
    check_copied as check_copied,
    has_bf16 as has_bf16,
    held_threads as held_threads,
    hooked as hooked,
    logits_of as logits_of,
    make as make,
    module_arguments as module_arguments,
    named_device as named_device,
    one_device as one_device,
    own_generator as own_generator,
    read_state as read_state,
    save_state as save_state,
    state_of as state_of,
    steady_kernels as steady_kernels,
    take_state as take_state,
    visible_devices as visible_devices,
    why_rows_fail as why_rows_fail,
)
from ._row_by_row import (
    TRAINABLE as TRAINABLE,
    RowByRow as RowByRow,
    Step as Step,
    brings_rules as brings_rules,
    check_rows_kept as check_rows_kept,
    close as close,
    read_program as read_program,
)
from ._named import (
    Linear as Linear,
    MLP as MLP,
    PapernotCNN as PapernotCNN,
    PapernotDeepCNN as PapernotDeepCNN,
    SmallCNN as SmallCNN,
    SmallResNet as SmallResNet,
    TanhCNN as TanhCNN,
    make_module as make_module,
    named_modules as named_modules,
    square_image_shape as square_image_shape,
)
