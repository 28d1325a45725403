"""What tasks have in common whose models choose classes: their results, tables, evaluation and class weights."""
