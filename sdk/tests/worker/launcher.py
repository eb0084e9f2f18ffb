"""A launcher that does nothing to the process: `python -I -S launcher.py ORDER`, as JSON: {descriptor, imports, program, controls, arguments}."""

import json
import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

order = json.loads(sys.argv[1])
os.dup2(order["descriptor"], 3)
os.closerange(4, 1024)
sys.path += order["imports"]
spec = spec_from_loader("__main__", SourceFileLoader("__main__", order["program"]))
assert spec is not None
assert spec.loader is not None
program = sys.modules["__main__"] = module_from_spec(spec)
spec.loader.exec_module(program)
os._exit(program.main(order["controls"], order["arguments"]))
