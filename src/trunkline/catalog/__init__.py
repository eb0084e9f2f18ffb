"""What is known of models: prices, cards, what providers list, and what the operator knows better."""
