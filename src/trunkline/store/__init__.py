"""What outlives the process: the database, its tables and their migrations."""
