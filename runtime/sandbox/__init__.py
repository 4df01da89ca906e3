"""Programs written by models, run where they can reach nothing of this machine (docs/sandbox.md)."""
