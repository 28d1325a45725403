"""What models make of test sets: translations to compare, and what an evaluation says of single items."""
