"""Commands over the public names; no logic of its own.

Heavy modules are imported inside the commands: ``pate --help`` answers at once.
"""

from pate.cli import account, compare, experiment, label, ledger, plan, statement
from pate.cli._app import app as app
from pate.cli._app import main as main

# One line per command, in the order of ``pate --help``. A group of commands is a typer of its own, added by
# ``app.add_typer(module.app, name="group")``.
app.command()(experiment.demo)
app.command()(experiment.run)
app.command()(label.label)
app.command()(account.account)
app.command()(plan.plan)
app.command()(compare.compare)
app.command()(statement.statement)
app.add_typer(ledger.app, name="ledger")

__all__ = ["app", "main"]
