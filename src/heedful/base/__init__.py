"""What every layer may use: errors, files, arguments of callers, devices, packed batches, trees."""
