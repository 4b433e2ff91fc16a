"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._build import (
    default_representation as default_representation,
    fitted_representation as fitted_representation,
    kind_of as kind_of,
    make_space as make_space,
    narrowed as narrowed,
    scattered as scattered,
)
from ._expected import (
    EPSILONS as EPSILONS,
    Expectation as Expectation,
    at_epsilon as at_epsilon,
    better_budget as better_budget,
    caution as caution,
    check_expected as check_expected,
    check_worth as check_worth,
    share_in_words as share_in_words,
    expected as expected,
    least_useful as least_useful,
    without_privacy as without_privacy,
)
from ._model import (
    MappedLinear as MappedLinear,
    RecordModel as RecordModel,
    balancing as balancing,
    check_decide as check_decide,
    decided as decided,
    keep_linear as keep_linear,
    keep_maps as keep_maps,
    keep_record_model as keep_record_model,
    made_of as made_of,
    made_of_linear as made_of_linear,
    read_linear as read_linear,
    read_maps as read_maps,
    read_record_model as read_record_model,
    public_variances as public_variances,
    some_rows as some_rows,
    temperature_as_measured as temperature_as_measured,
    tempered as tempered,
    to_equal as to_equal,
)
from ._rule import (
    FEWEST_PUBLIC as FEWEST_PUBLIC,
    PublicFacts as PublicFacts,
    Recipe as Recipe,
    Round as Round,
    choose as choose,
    chosen_method as chosen_method,
    without_student as without_student,
)
from ._run import (
    Ask as Ask,
    RecordsPlan as RecordsPlan,
    Rounds as Rounds,
    cast_round as cast_round,
    counted_right as counted_right,
    held_where_it_fits as held_where_it_fits,
    most_student_components as most_student_components,
)
