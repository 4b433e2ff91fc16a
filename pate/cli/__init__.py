"""The command line: ``pate`` and its commands, which call the public Python names and have no logic of their own.

Heavy modules are imported inside the commands: ``pate --help`` answers at once.
"""

from pate.cli import _account as account
from pate.cli import _audit as audit
from pate.cli import _experiment as experiment
from pate.cli import _federation as federation
from pate.cli import _label as label
from pate.cli import _ledger as ledger
from pate.cli import _schema as schema
from pate.cli import _statement as statement
from pate.cli import _train as train
from pate.cli._app import add_commands
from pate.cli._app import app as app
from pate.cli._app import main as main

# The commands, in the order of ``pate --help``. A group of commands is a typer of its own.
add_commands(
    app,
    experiment.demo,
    experiment.run,
    label.label,
    label.predict,
    label.show,
    schema.schema,
    train.train,
    account.account,
    account.plan,
    experiment.compare,
    audit.audit,
    statement.statement,
    statement.verify,
)
add_commands(federation.app, *federation.COMMANDS, under="federation ")
app.add_typer(federation.app, name="federation")
add_commands(ledger.app, *ledger.COMMANDS, under="ledger ")
app.add_typer(ledger.app, name="ledger")

__all__ = ["app", "main"]
