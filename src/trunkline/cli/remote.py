"""`trunkline remote`: every resource of the admin API, those included whose own command works on this machine's database."""

from cyclopts import App

from trunkline.app.resources import resources
from trunkline.cli.resources import made

command = App(
    name="remote", help="Do with a running server, wherever it is, what its admin API offers: accounts, keys, credentials, all of it."
)
for _name, _resource in resources().items():
    command.command(made(_name, _resource))
