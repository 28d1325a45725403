"""How models answer what they are given: the forms of their answers, and requests of other programs."""
