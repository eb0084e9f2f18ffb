"""What happens in the process that becomes a worker. Standard library only; one thread; no shell; nothing is executed after the start.

Each step does one thing and returns nothing; a step that fails raises, and then no code of an extension runs.
"""
