"""Examples for ``-h``, to copy and adapt: every one is read by its own command in the tests."""

from __future__ import annotations

#: By the command's name; a line for each, as it would be typed.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": (
        "pate demo",
        "pate demo --epsilon 1 --out runs/tight",
    ),
    "run": (
        "pate run --dataset digits --epsilon 3 --out runs/digits",
        "pate run --dataset mnist --epsilon 2.6 --teachers 250 --mechanism confident --sigma 40 \\",
        "    --threshold 200 --sigma-threshold 150 --queries 640 --out runs/mnist",
    ),
    "label": (
        "pate label --private patients.csv --target ill --public cohort.csv --classes no,yes \\",
        "    --epsilon 1 --delta 1e-6 --out labels.csv",
        "pate label --private patients.csv --target ill --group patient_id --public cohort.csv \\",
        "    --classes no,yes --epsilon 1 --out labels.csv --plan",
        "pate label --votes votes.npy --classes no,yes --public cohort.csv --epsilon 1 --out labels.csv",
    ),
    "predict": (
        "pate predict new.csv --model labels.pate --id patient_id --out predictions.csv",
        "pate predict new.csv --model labels.pate --out predictions.csv --proba",
    ),
    "show": (
        "pate show labels.pate",
        "pate show labels.pate --out model.html",
    ),
    "account": (
        "pate account votes.npy --mechanism gnmax --sigma 40 --delta 1e-5",
        "pate account votes.npy --mechanism gnmax --sigma 40 --delta 1e-5 --reveal --plot epsilon.png",
    ),
    "plan": (
        "pate plan --epsilon 1 --classes 2 --records 5000 --public 800",
        "pate plan --epsilon 1 --classes no,yes --records 5000 --public cohort.csv --best 0.9",
        "pate plan --epsilon 1 --classes 10 --records 60000 --queries 300",
    ),
    "compare": ("pate compare --dataset digits --epsilons 0.5,1,3 --out runs/compare",),
    "audit": (
        "pate audit runs/digits",
        "pate audit labels.statement.json --cite labels.audited.json",
        "pate audit votes.npy --mechanism gnmax --sigma 40 --delta 1e-5",
        "pate audit votes.npy --mechanism gnmax --sigma 40 --canary votes-without-me.npy --out inside/audit",
        "pate audit job.toml --pairs 20",
    ),
    "statement": (
        "pate statement labels.statement.json",
        "pate statement labels.statement.json --ledger patients.csv.ledger.sqlite --out page.html",
        "pate statement --new-catalogue de.toml",
        "pate statement labels.statement.json --catalogue de.toml --out seite.html",
    ),
    "verify": (
        "pate verify labels.csv labels.pate labels.statement.* --ledger patients.csv.ledger.sqlite",
        "pate verify labels.statement.json --ledger copy.sqlite --head 3f6c...",
    ),
    "ledger begin": ("pate ledger begin patients.csv.ledger.sqlite --epsilon 3 --delta 1e-6",),
    "ledger show": ("pate ledger show patients.csv.ledger.sqlite",),
    "ledger verify": (
        "pate ledger verify patients.csv.ledger.sqlite",
        "pate ledger verify patients.csv.ledger.sqlite --head 3f6c...",
    ),
    "ledger bind": ("pate ledger bind patients.csv.ledger.sqlite labels.audited.json",),
    "ledger export": ("pate ledger export patients.csv.ledger.sqlite labels.csv",),
    "ledger remaining": ("pate ledger remaining patients.csv.ledger.sqlite --json",),
    "ledger revise": ("pate ledger revise patients.csv.ledger.sqlite --reason 'two wrong diagnoses corrected'",),
}
