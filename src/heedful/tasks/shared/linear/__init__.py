"""Linear models on n-grams: lines to beat, and the first weights of bags of n-grams."""
