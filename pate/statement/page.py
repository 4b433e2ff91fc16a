"""The statement as one HTML page: plain words first, then the record, each of its headings explained."""

from __future__ import annotations

from pate.core.pages import render
from pate.statement.catalogue import Catalogue, Line
from pate.statement.fields import StatementFields
from pate.statement.people import glossary, people_page
from pate.statement.render import Rows, headline


def html(s: StatementFields, shown: Rows, digest: str, say: Catalogue) -> str:
    """Return the page, which prints on two sheets of A4; ``shown`` are the record's rows."""
    return render(
        "statement.html",
        page=people_page(s, say, digest),
        language=say.language,
        name=say.name,
        missing=len(say.missing),
        all=len(say.missing) + len(say.texts),
        again=say("page.again"),
        command=_commands(s),
        record_title=say("page.record_title"),
        record_intro=say("page.record_intro"),
        headline=headline(s),
        rows=[(*explained(name, say), value) for name, value in shown],
        words_title=say("page.words_title"),
        glossary=glossary(say),
    )


def explained(name: str, say: Catalogue) -> tuple[Line, Line]:
    """Return a heading of the record and what it means.

    Examples
    --------
    >>> from pate.statement.catalogue import english
    >>> [line.text for line in explained("At other deltas", english())]
    ['At other deltas', 'the same noise, said otherwise']
    """
    key = name.lower().replace(",", "").replace(" ", "_")
    return say(f"heading.{key}"), say(f"explained.{key}")


def card(s: StatementFields, say: Catalogue) -> str:
    """Return the statement in a notebook's cell: headline and the cards of the page."""
    return render("cell_statement.html", page=people_page(s, say, ""), headline=headline(s))


def _commands(s: StatementFields) -> str:
    stem = s.label_file.rpartition(".")[0] or s.label_file or "labels"
    plain = f"pate statement {stem}.statement.json --out page.html"
    files = f"{s.label_file} {stem}.statement.json".strip()
    return plain + (f"\npate verify {files} --ledger LEDGER.sqlite" if s.ledger_releases else "")
