"""From a recipe's [model] table to a network with new weights."""
