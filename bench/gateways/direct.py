"""No gateway at all: what the load generator and the mock cost by themselves. It runs no process; the load goes to the mock."""

from bench.gateways import Gateway, Launch

GATEWAY = Gateway(name="direct", missing=lambda _: "", launch=lambda _: Launch([]))
