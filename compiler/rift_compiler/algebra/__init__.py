"""The algebra of folds.

monoids      what a fold combines with, as data
action       two dependent folds into one, derived and proved
laws         proofs: associativity, identity, homomorphism
associative  whether a user's loop hides a combine
"""
