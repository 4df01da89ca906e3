"""Stepwell beside what a user would pick instead: the same work, in turns, in one run (`make bench-peers`)."""
