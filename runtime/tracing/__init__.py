"""Traces: who writes them down, and how they leave for other systems. What they are made of is store/tracing.py."""
