"""The algebra of folds: monoids, how dependent folds become one, and proofs of it."""
