"""What sites are asked in one round, as an archive without code: public maps, the model so far, what is cast."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pate._core.checks import check_choice
from pate.exceptions import FederationError, InvalidInputError, PateError
from pate.models.file import InputSpec, Manifest, archived, from_archive
from pate.models.recipes import RecordModel, keep_maps, keep_record_model, read_maps, read_record_model
from pate.records import BallotFacts, RecordVoters, RightFacts, is_own

#: Ballots of classes or of residuals, and counts of records that the model is right about.
KINDS = ("ballots", "right")
#: Representations of which archives hold the maps: none, pate's own, and the features of an image student.
_MAPS = ("", "none", "map", "student")
_NAME = "the round's archive"


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """What every site is asked in one round. Public: made of public rows and of what was opened before.

    Attributes
    ----------
    kind : {"ballots", "right"}
    voters : RecordVoters
        The public maps, and the classes.
    unit : {"record", "group"}
        What is protected, and so what is clipped together.
    door : InputSpec
        What a row is, by the public ones.
    model : RecordModel or None
        Whose residuals are cast, or about which it is counted who is right; None: ballots of classes.
    clip : float or None
        Of residuals.
    by_class : bool
        Right and wrong answers by class, instead of one count.
    text : str
        What identifies the model that is counted about.

    Examples
    --------
    >>> import numpy as np
    >>> from pate.records import SignedSpace
    >>> voters = RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=("no", "yes"))
    >>> asked = Question(
    ...     kind="ballots",
    ...     voters=voters,
    ...     unit="record",
    ...     door=InputSpec(kind="array", n_features=3),
    ... )
    >>> again = Question.from_bytes(asked.to_bytes(), {})
    >>> again.voters.fingerprint() == voters.fingerprint(), again.facts(90).n_components
    (True, 2)
    """

    kind: str
    voters: RecordVoters
    unit: str
    door: InputSpec
    model: RecordModel | None = None
    clip: float | None = None
    by_class: bool = False
    text: str = ""

    @cached_property
    def space(self) -> str:
        """Fingerprint of the voters' maps; it takes long, as it reads all of them."""
        return self.voters.fingerprint()

    def facts(self, n_units: int) -> BallotFacts | RightFacts:
        """Return the public facts of the sum over so many units."""
        voters, model = self.voters, self.model
        if self.kind == "ballots":
            head = None if model is None else model.head
            return voters.facts_of(head, unit=self.unit, n=n_units, clip=self.clip)
        assert model is not None
        return RightFacts(
            by_class=self.by_class, classes=voters.classes, unit=self.unit, adjacency=voters.adjacency, n=n_units,
            model=self.text, own=model.own(unit=self.unit),
        )  # fmt: skip

    def to_bytes(self, *, maps: bool = True) -> bytes:
        """Return the archive; without ``maps`` it is for sites that have the voters already."""
        with tempfile.TemporaryDirectory(prefix="pate-round-") as name:
            folder = Path(name)
            kept = keep_maps(self.voters, folder) if maps else ""
            model = None if self.model is None else keep_record_model(self.model, folder, maps=False)
            parts = {part.name: part.read_bytes() for part in sorted(folder.iterdir())}
        asked = {n: getattr(self, n) for n in ("kind", "unit", "clip", "by_class", "text")}
        held = {"maps": kept, "space": self.space, "model": model}
        about: dict[str, Any] = {"kind": "records", "door": self.door, "settings": asked, "parts": held}
        # As they are: True is not 1, and 1 is not "1".
        return archived(Manifest(classes=self.voters.classes, dtype="|O", **about).to_dict(), parts)

    @classmethod
    def from_bytes(cls, data: bytes, known: Mapping[str, RecordVoters]) -> Question:
        """Return what an archive asks; nothing in it is run, and no map is built that is not pate's own.

        ``known`` are voters that came before, by fingerprint: they are used where the archive has none.

        Raises
        ------
        InvalidInputError
            It is damaged, holds parts or types that no round has, or lacks maps that are not known.
        """
        described, parts = from_archive(data, _NAME)
        why = "it holds other parts than arrays"
        try:
            manifest = Manifest.from_dict(described)
            if all(name.endswith(".safetensors") for name in parts):
                return cls._read(manifest, parts, known)
        except PateError:
            raise
        except Exception as error:  # a wrong shape or type may raise any
            why = f"its parts do not make a question ({type(error).__name__})"
        raise InvalidInputError(f"{_NAME} cannot be read: {why}. Nothing was cast. Ask with this version of pate.")

    @classmethod
    def _read(cls, manifest: Manifest, parts: Mapping[str, bytes], known: Mapping[str, RecordVoters]) -> Question:
        asked, held = dict(manifest.settings), manifest.parts
        check_choice("kind", asked["kind"], KINDS)
        check_choice("unit", asked["unit"], ("record", "group"))
        kept, space = check_choice("maps", held["maps"], _MAPS), str(held["space"])
        with tempfile.TemporaryDirectory(prefix="pate-round-") as name:
            folder = Path(name)
            for part, data in parts.items():
                (folder / part).write_bytes(data)
            if space in known:
                voters = known[space]
            elif kept:
                voters = read_maps(folder, kept, manifest.classes, own=True)
            else:
                raise FederationError("this site was asked by maps that it never got. Nothing was cast. Ask anew.")
            if voters.fingerprint() != space or voters.classes != manifest.classes:
                raise InvalidInputError(f"{_NAME} must be of the maps and classes that it names. Ask anew.")
            model = None
            if held["model"] is not None:
                model = read_record_model(folder, held["model"], voters.classes, voters=voters)
        question = cls(voters=voters, door=manifest.door, model=model, **asked)
        wants_model = question.kind == "right" or question.clip is not None
        own = voters.own_maps and (model is None or is_own(model.head, ".models.heads"))
        if wants_model != (model is not None) or not own or not isinstance(question.by_class, bool):
            raise InvalidInputError(f"{_NAME} must be of maps and heads of pate's own, with a model if one is asked.")
        return question
