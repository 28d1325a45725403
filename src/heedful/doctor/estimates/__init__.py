"""What a run would cost: updates, operations, memory, and the speed of the device."""
