"""Procedures: learn, save, correct and use them."""
