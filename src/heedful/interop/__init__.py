"""Import of models trained with other toolkits: `importing.py` lists the supported model types."""
