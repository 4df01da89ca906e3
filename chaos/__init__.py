"""Stepwell under fire: real processes are killed, stalled and starved, then every promise is checked in the tables."""
