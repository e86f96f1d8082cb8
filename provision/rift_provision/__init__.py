"""Host facts, checks, plans, apply and undo; VM planning and life cycle."""
