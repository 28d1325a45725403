"""Instruments: what a run measures of its layers while it trains, and what that says about a run that diverges."""
