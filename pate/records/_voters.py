"""Record voters: every private record casts one bounded ballot on public directions; ballots are summed exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pate._core.checks import check_choice, check_classes, check_int, check_real, shown
from pate._core.cluster import in_order, on_cluster, workers
from pate._core.files import let_go
from pate._core.progress import track
from pate._core.recorder import note
from pate._core.types import FloatArray, IntArray, Mask
from pate.exceptions import InvalidInputError
from pate.records._maps import (
    BLOCK_ROWS,
    Directions,
    HeldRecords,
    PublicMap,
    Sums,
    Work,
    fingerprint_of,
    is_own,
    on_disk_pieces,
    rows_of,
    slabs,
    take,
)
from pate.records._tiers import Tiers
from pate.records.ballot_sum import (
    ADJACENCIES,
    KINDS,
    BallotFacts,
    BallotSum,
    TierFacts,
    UnitOwners,
    centred,
    check_clip,
)
from pate.representations import n_rows
from pate.teachers import Owners, class_indices, label_column, usable
from pate.votes import ABSTAIN, hash_queries

# Records that vote on the public rows near them, and abstain elsewhere: for :func:`pate.open_vote_cap`.


@dataclass(frozen=True, eq=False, repr=False)
class CappedVotes:
    """Every record's vote or abstention on public rows: **sensitive**.

    ``labels`` (n_records, n_queries) are class indices, ABSTAIN where the public row is farther from the record than
    the radius; a ledger recognises the records by ``fingerprint``, **sensitive**.
    """

    labels: Any
    classes: tuple[Any, ...]
    n_units: int
    query_hashes: tuple[str, ...]
    fingerprint: str = field(repr=False)

    @property
    def n_teachers(self) -> int:
        """The number of records: each is a teacher."""
        return self.n_units

    def __repr__(self) -> str:
        return f"CappedVotes(n_queries={self.labels.shape[1]}, n_teachers={self.n_units}, labels=<sensitive>)"


def near_labels(maps: PublicMap, rows: Any, labels: IntArray, public: FloatArray, radius: float) -> Any:
    """Return each record's class for the public rows within ``radius`` of it, ABSTAIN for the others.

    ``public`` (n_queries, d) is phi of public rows, the radius |phi_i - phi_j| at most 2; a label of -1 abstains
    everywhere.
    """
    radius = check_real("radius", radius, low=0, low_open=True, high=2)
    found = np.full((n_rows(rows), len(public)), ABSTAIN, dtype=np.int16 if labels.max(initial=0) < 2**15 else np.int32)
    lengths = np.square(public).sum(axis=1)
    block = np.zeros((BLOCK_ROWS, maps.d))
    for start, end in slabs(len(found), BLOCK_ROWS):
        phi = maps.phi(rows, np.arange(start, end))
        block[: end - start] = phi
        apart = np.square(block).sum(axis=1)[:, None] + lengths - 2.0 * (block @ public.T)
        near = apart[: end - start] <= radius * radius
        found[start:end] = np.where(
            near & np.isfinite(phi).all(axis=1, keepdims=True), labels[start:end, None], ABSTAIN
        )
    return found


#: Rows of one piece of work.
_SLAB = 8192


@dataclass(frozen=True, eq=False, repr=False)
class _Read:
    """Records in pieces (rows, class indices, owners, weights), their owners, and which could be read: **sensitive**.

    ``order`` is their order in the pieces; ``cast`` grows by one mask per piece, of records with a ballot not zero.
    """

    pieces: Iterator[tuple[Any, ...]]
    n_pieces: int
    unit_owners: UnitOwners
    order: IntArray
    labels: IntArray
    readable: Mask
    has_owner: Mask
    cast: list[Mask] = field(default_factory=list)


class RecordVoters:
    """Record voters: compute every private record's ballot and their exact sum, **sensitive** until noise is added.

    Parameters
    ----------
    representation : transformer or None
        Map from rows to vectors, fitted on public rows (:mod:`pate.representations`); each row's output must depend on
        that row alone. None: the rows are already as the space takes them.
    space : SoftSpace, SignedSpace or HardSpace
        The public map that turns a vector into the direction of the ballot, fitted on the public rows' representation.
    classes : iterable or int
        Every class value that could occur, in order: public.
    adjacency : {"replace-one", "add-or-remove"}
        Which data sets are neighbours. Under the latter the number of records is private.
    nominal_n : int or None
        A public guess of the number of records: required under add-or-remove adjacency, and used wherever that number
        would be.
    classes_inferred : bool
        The classes were read off the private labels; the statement then says so.
    n_jobs : int or None
        How many processes (joblib), or parallel tasks on the cluster that ``joblib.parallel_config`` names. The sum is
        exact, so it does not depend on it.
    verbose : bool
        Show progress.

    Examples
    --------
    >>> from pate import Budget
    >>> from pate.mechanisms import GaussianSum
    >>> from pate.records import SignedSpace
    >>> from pate.release import release_ballots
    >>> rng = np.random.default_rng(0)
    >>> y, y_public = rng.integers(2, size=400), rng.integers(2, size=100)
    >>> X, X_public = (
    ...     rng.normal(size=(400, 3)) + 2 * y[:, None],
    ...     rng.normal(size=(100, 3)) + 2 * y_public[:, None],
    ... )
    >>> voters = RecordVoters(None, SignedSpace().fit(X_public), classes=("no", "yes"))
    >>> ballots = voters.cast(X, np.array(["no", "yes"])[y])
    >>> budget = Budget(1.0, 1e-5)
    >>> release = release_ballots(ballots, GaussianSum.for_budget(budget), budget=budget)
    >>> bool((voters.label(release, X_public).labels == y_public).mean() > 0.9)
    True
    """

    def __init__(
        self,
        representation: Any,
        space: Any,
        *,
        classes: Any,
        adjacency: str = "replace-one",
        nominal_n: int | None = None,
        classes_inferred: bool = False,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        if getattr(space, "kind", None) not in KINDS or not hasattr(space, "n_components_"):
            raise InvalidInputError(f"space must be a fitted SoftSpace, SignedSpace or HardSpace, got {shown(space)}.")
        if representation is not None and not hasattr(representation, "transform"):
            raise InvalidInputError(
                f"representation must be a fitted transformer or None, got {shown(representation)}."
            )
        self.representation, self.space = representation, space
        self.classes = check_classes(range(classes) if isinstance(classes, int) else classes)
        self.adjacency = check_choice("adjacency", adjacency, ADJACENCIES)
        if (nominal_n is None) != (adjacency == "replace-one"):
            raise InvalidInputError(
                "nominal_n must be given under adjacency='add-or-remove', and there alone: it stands for the number of "
                f"records, which is private there; got {shown(nominal_n)} under {adjacency!r}."
            )
        self.nominal_n = None if nominal_n is None else check_int("nominal_n", nominal_n, low=1)
        self.classes_inferred = bool(classes_inferred)
        self.n_jobs, self.verbose = n_jobs, verbose
        self.step = "ballots"  # what progress calls a pass over the records
        self._map = PublicMap(representation, space)
        self._map.fingerprint()  # refused here if there is none

    def forgive(self) -> None:
        """Take a record at which a map fails for one that cannot be used: maps that a stranger sent may fail."""
        self._map.forgives = True

    def __repr__(self) -> str:
        return f"RecordVoters({self.representation!r}, {self.space!r}, classes={len(self.classes)}, {self.adjacency})"

    def transform(self, X: Any) -> FloatArray:
        """Return phi of **public** rows, float64 of shape (n, d), for fitting heads and for predicting with them."""
        rows, _ = rows_of(X, width=self._map.width)
        return self._map.phi(rows, np.arange(n_rows(rows)))

    def represent(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return (z, phi) of **public** rows: their representation, as the space takes it, and their directions."""
        rows, _ = rows_of(X, width=self._map.width)
        z, phi = self._map.both(rows, np.arange(n_rows(rows)), keep=True)
        assert z is not None
        return z, phi

    def fingerprint(self) -> str:
        """Return the digest of representation and space, which a release carries as ``space_fingerprint``."""
        return self._map.fingerprint()

    @property
    def own_maps(self) -> bool:
        """Whether representation and space are pate's own classes."""
        return self._map.own

    @property
    def exact_maps(self) -> bool:
        """Whether a row's direction is the same to the last bit wherever the row stands."""
        return self._map.exact

    def label(self, release: Any, X: Any) -> Any:
        """Return labels of public rows from a release of these voters' ballots, at no cost: ``release.decide(phi)``.

        Raises
        ------
        InvalidInputError
            The release is of another space.
        """
        if release.space_fingerprint != self.fingerprint():
            raise InvalidInputError("release is of ballots in another space. Ask with the voters that cast them.")
        return release.decide(self.transform(X))

    def hold(
        self, X: Any, y: Any, *, groups: Any = None, tiers: Tiers | None = None, on_disk: bool = False
    ) -> HeldRecords:
        """Return the records with their directions, so that several rounds of :meth:`cast` map the rows only once.

        The ballots are the same to the last bit; it saves time, and takes four bytes per record and component.

        Parameters
        ----------
        X, y, groups, tiers
            See :meth:`cast`; no chunks.
        on_disk : bool
            Store directions in an unnamed temporary file, removed with the process, and not in memory.

        Returns
        -------
        HeldRecords
            **Sensitive.** Taken by :meth:`cast` and :meth:`cast_residuals` in place of ``X``.

        Examples
        --------
        >>> from pate.records import SignedSpace
        >>> X = np.random.default_rng(0).normal(size=(50, 3))
        >>> voters = RecordVoters(None, SignedSpace().fit(X), classes=2)
        >>> held = voters.hold(X, np.arange(50) % 2)
        >>> bool((voters.cast(held).sums == voters.cast(X, np.arange(50) % 2).sums).all())
        True
        """
        read = self._read(X, y, groups, tiers)
        made = self._each(Work(Directions(self._map)), read, "directions")
        pieces = tuple(on_disk_pieces(made) if on_disk else made)
        self._warn(read)
        sealed = tuple(piece.sealed() for piece in pieces)
        return HeldRecords(sealed, read.unit_owners, self._public_facts(), self._map, read.order)

    def cast(self, X: Any, y: Any = None, *, groups: Any = None, tiers: Tiers | None = None) -> BallotSum:
        """Return the exact sum of all records' ballots.

        Parameters
        ----------
        X : array, table, sparse matrix, images or texts of n records, or an iterable of chunks
            Without ``y``: an iterable of ``(X, y)`` or ``(X, y, groups)``, taken one at a time; or what :meth:`hold`
            returned.
        y : array-like of shape (n,)
            Class values.
        groups : array-like of shape (n,) or None
            The owner of each record. A person's ballots are clipped together, and the unit is the person; all of a
            person's records must come in one chunk.
        tiers : Tiers or None
            The tier of each record: its ballot is scaled by the tier's weight. Not for chunks.

        Returns
        -------
        BallotSum
            **Sensitive.**

        Raises
        ------
        InvalidInputError
            Wrong shapes, or columns that do not fit, both public facts; a person with records in two chunks.

        Warns
        -----
        CuratorWarning
            Some records cannot be used.

        Notes
        -----
        A record whose class, owner, row or direction cannot be used casts the zero ballot and raises no error, even if
        all records do (:mod:`pate.data._cells`). A row of a list is one if it has as many
        cells as the map's public rows; where the map does not say how many (no ``n_features_in_``), rows are texts.

        The same records cast twice and added (``cast(X, y) + cast(X, y)``, or a record in two chunks) count double, and
        then the noise is too small for the guarantee. This is not detected, since chunks of different records may have
        equal labels. Only adding one sum to itself, or a person in two parts, is refused.

        With ``groups`` the units are the owners that are named: a record without one belongs to no unit, and a person
        none of whose records has an id is not counted, so that taking a person's ids away is removing that person. Give
        every record an owner, or drop it.
        """
        return self._cast(X, y, groups, tiers, self._sums())

    def cast_residuals(
        self, X: Any, y: Any = None, model: Any = None, *, clip: float, groups: Any = None, tiers: Tiers | None = None
    ) -> BallotSum:
        """Return the exact sum of phi (x) clip(e_y - p(x)), every record's residual under a public model.

        Parameters
        ----------
        X, y, groups, tiers
            See :meth:`cast`.
        model : object with ``predict_proba(phi) -> (n, m)``
            **Public**: computed from released quantities and public rows alone; the guarantee depends on it. It gets
            the direction that is cast, phi in whole 2^-16, or the representation if its ``takes`` is
            ``"representation"`` (:class:`pate.models.heads.LikelihoodHead`).
        clip : float
            C, the norm to which e_y - p is clipped, in (0, sqrt 2].

        Returns
        -------
        BallotSum
            **Sensitive.**
        """
        if not hasattr(model, "predict_proba"):
            raise InvalidInputError(f"model must have predict_proba(phi), got {shown(model)}. Pass a fitted head.")
        return self._cast(X, y, groups, tiers, self._sums(model, check_clip(clip)))

    def capped_votes(self, X: Any, y: Any, *, X_public: Any, radius: float) -> CappedVotes:
        """Return every record's votes on public rows near it, for a run under :class:`pate.VoteCap`.

        A record votes with its class for the public rows within ``radius`` of it (|phi_i - phi_j|), and abstains
        elsewhere: decided by its own row, public rows and the radius alone, as :func:`pate.open_vote_cap` asks. One
        person is one record.

        Parameters
        ----------
        X, y : n private records
        X_public : n_queries public rows
        radius : float
            In (0, 2], public.

        Returns
        -------
        CappedVotes
            **Sensitive.** n * n_queries votes of two bytes.

        Raises
        ------
        InvalidInputError
            Adjacency is add-or-remove: a run of capped votes has a public number of teachers.
        """
        if self.adjacency != "replace-one":
            raise InvalidInputError("capped votes need adjacency='replace-one': the number of teachers is public.")
        rows, readable = rows_of(X, width=self._map.width)
        n = n_rows(rows)
        labels = self._labels(y, n)
        public = self.transform(X_public)
        fine = usable(self.classes, labels, readable, None)
        near = near_labels(self._map, rows, np.where(fine, labels, -1), public, radius)
        hashes = hash_queries(public)
        return CappedVotes(near, self.classes, n, hashes, UnitOwners.of(labels, None, None).fingerprint())

    def _cast(self, X: Any, y: Any, groups: Any, tiers: Tiers | None, sums: Sums) -> BallotSum:
        if isinstance(X, HeldRecords):
            return self._held(X, y, groups, tiers, sums)
        if y is not None:
            return self._part(X, y, groups, tiers, sums)
        if tiers is not None:
            raise InvalidInputError("tiers must be left out with chunks of records. Pass X and y whole.")
        if not isinstance(X, Iterable) or hasattr(X, "shape"):
            raise InvalidInputError("y must be given, unless X is an iterable of (X, y) or (X, y, groups) chunks.")
        total: BallotSum | None = None
        for chunk in X:
            if not isinstance(chunk, tuple | list) or len(chunk) not in (2, 3):
                raise InvalidInputError(f"chunks must be (X, y) or (X, y, groups), got {shown(chunk)}.")
            part = self._part(chunk[0], chunk[1], chunk[2] if len(chunk) > 2 else None, None, sums)
            total = part if total is None else total + part
        if total is None:
            raise InvalidInputError("X must have at least one chunk of records, got none.")
        return total

    def _part(self, X: Any, y: Any, groups: Any, tiers: Tiers | None, sums: Sums) -> BallotSum:
        read = self._read(X, y, groups, tiers)
        directions = Directions(self._map, keep=getattr(sums.model, "takes", "phi") != "phi")
        total = self._added(self._each(Work(directions, sums), read, self.step), read.unit_owners, sums)
        self._warn(read)
        return total

    def _held(self, held: HeldRecords, y: Any, groups: Any, tiers: Tiers | None, sums: Sums) -> BallotSum:
        if y is not None or groups is not None or tiers is not None:
            raise InvalidInputError("y, groups and tiers must be left out where X is held records, which have them.")
        space = held.of[0] if held.maps is self._map else self.fingerprint()
        if held.of != self._public_facts(space):
            raise InvalidInputError(
                "X must be records held by these voters, got some of another space, other classes or another "
                "adjacency. Call hold of these voters."
            )
        if getattr(sums.model, "takes", "phi") != "phi":
            raise InvalidInputError(
                "model must predict from phi where X is held records, which store nothing else. Pass the records "
                "themselves."
            )
        return self._added(map(sums, held.pieces), held.unit_owners, sums, space)

    def _added(self, parts: Iterable[IntArray], owners: UnitOwners, sums: Sums, space: str | None = None) -> BallotSum:
        total = np.zeros((self._map.d, len(self.classes)), dtype=np.int64)
        for part in parts:
            total += part
            let_go()
        n = owners.n_units if self.nominal_n is None else self.nominal_n
        tiers = None if owners.tiers is None else owners.tiers.facts
        unit = "group" if owners.grouped else "record"
        facts = self.facts_of(sums.model, unit=unit, n=n, clip=sums.clip, tiers=tiers, space=space)
        return BallotSum(centred(total) if sums.clip is None else total, facts, owners)

    def _public_facts(self, space: str | None = None) -> tuple[Any, ...]:
        """Return all facts that held directions, class indices and the facts of their sum depend on."""
        classes = tuple((type(c), c) for c in self.classes)  # True is not 1
        others = (self.adjacency, self.nominal_n, self.classes_inferred)
        return (self.fingerprint() if space is None else space, self.space.kind, classes, *others)

    def _sums(self, model: Any = None, clip: float | None = None) -> Sums:
        return Sums(self.space.kind, len(self.classes), model, clip)

    def _shown(self, owners: UnitOwners) -> bool:
        """Whether progress may be shown: under add-or-remove it would reveal the number of records."""
        return self.verbose and self.nominal_n is None and not owners.grouped

    def _read(self, X: Any, y: Any, groups: Any, tiers: Tiers | None) -> _Read:
        rows, readable = rows_of(X, width=self._map.width)
        n = n_rows(rows)
        labels = self._labels(y, n)
        by_row = Owners.of(groups, n)
        if tiers is not None and self.adjacency != "replace-one":
            raise InvalidInputError("tiers need adjacency='replace-one': how many units are in each is public.")
        of_units = None if tiers is None else tiers.of_units(by_row)
        scales = None if of_units is None else of_units.scales
        codes, known = by_row.codes, np.where(readable & by_row.known, labels, -1)
        # By tier, not as they are cast by: a replay then finds scales that are not the tier's.
        weights = (
            None if tiers is None or of_units is None else np.array([w for _, w, _ in of_units.facts])[tiers.codes]
        )
        note("rows", who="RecordVoters", rows=rows, labels=labels, groups=by_row.groups, scales=weights)
        if codes is None:
            order, pieces = np.arange(n), list(slabs(n, _SLAB))
        else:
            order = np.argsort(codes, kind="stable")
            pieces = list(_between_persons(codes[order], _SLAB))
        tasks = (
            (
                _taken(rows, order[a:b]),
                known[order[a:b]],
                None if codes is None else codes[order[a:b]],
                None if scales is None else scales[order[a:b]],
            )
            for a, b in pieces
        )
        owners = UnitOwners.of(labels, by_row.groups, by_row.ids, of_units)
        return _Read(tasks, len(pieces), owners, order, labels, readable, by_row.known)

    def _warn(self, read: _Read) -> None:
        """Warn the curator of records that cast the zero ballot."""
        odd = read.readable & read.has_owner & (read.labels >= 0)
        odd[read.order] &= ~np.concatenate([*read.cast, np.zeros(0, dtype=bool)])  # their direction is zero
        usable(self.classes, read.labels, read.readable & ~odd, read.has_owner)

    def _each(self, work: Work, read: _Read, label: str) -> Iterator[Any]:
        """Yield what ``work`` makes of each piece, in order, and note which records cast a ballot."""
        made: Iterable[Any] = (work(*task) for task in read.pieces)
        if on_cluster():
            made = in_order(work, read.pieces, n_jobs=self.n_jobs)
        elif workers(self.n_jobs) > 1:
            from joblib import Parallel, delayed

            made = Parallel(n_jobs=self.n_jobs, return_as="generator")(delayed(work)(*t) for t in read.pieces)
        for found, voted in track(made, total=read.n_pieces, label=label, show=self._shown(read.unit_owners)):
            read.cast.append(voted)
            yield found

    def _labels(self, y: Any, n: int) -> IntArray:
        return class_indices(label_column(y, n), self.classes)

    def facts_of(
        self,
        model: Any = None,
        *,
        unit: str,
        n: int,
        clip: float | None = None,
        tiers: TierFacts | None = None,
        space: str | None = None,
    ) -> BallotFacts:
        """Return the public facts of a sum of ballots that n units cast: of residuals under the model, if there is one.

        ``space`` is :meth:`fingerprint`, where it is known already.
        """
        # Neighbouring tables have every other row in the same place: then its last bits are the same by any map.
        fixed = unit == "record" and self.adjacency == "replace-one"
        # A model that is not pate's, or calls another, may read all rows of a block; a head's own_ and exact_ say
        # whether it does, and whether places matter.
        own_head = model is None or (is_own(model, ".models.heads") and bool(getattr(model, "own_", False)))
        heads_exact = model is None or bool(getattr(model, "exact_", False))
        return BallotFacts(
            kind=self.space.kind,
            clip=clip,
            classes=self.classes,
            n_components=self._map.d,
            unit=unit,
            adjacency=self.adjacency,
            n=n,
            space=self.fingerprint() if space is None else space,
            provenance=self._map.provenance,
            own_maps=self._map.own and own_head and (fixed or (self._map.exact and heads_exact)),
            model="" if model is None else fingerprint_of(model),
            classes_inferred=self.classes_inferred,
            own_model=model is not None and own_head,
            tiers=tiers,
        )


def _taken(rows: Any, index: IntArray) -> Any:
    part = take(rows, index)
    let_go()
    return part


def _between_persons(codes: IntArray, rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of sorted rows, cut between persons; each but the last has at least ``rows`` rows."""
    ends = np.flatnonzero(np.r_[codes[1:] != codes[:-1], True]) + 1 if len(codes) else np.zeros(0, dtype=np.int64)
    start = 0
    for end in ends.tolist():
        if end - start >= rows:
            yield start, end
            start = end
    if start < len(codes):
        yield start, len(codes)
