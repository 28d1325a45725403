"""From a recipe's [model] table to a network with fresh weights."""
