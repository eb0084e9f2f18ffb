"""The load harness: gateways side by side on one machine, as ratios within one run. See the README beside it."""
