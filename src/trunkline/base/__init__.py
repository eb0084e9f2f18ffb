"""What knows nothing of AI."""
