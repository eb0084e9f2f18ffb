"""What a call is, in no vendor's words."""
