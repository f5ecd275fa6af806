"""Correspond and Cut, the method of the paper."""
