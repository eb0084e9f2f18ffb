"""Where the objects of one running Trunkline meet, live and end."""
