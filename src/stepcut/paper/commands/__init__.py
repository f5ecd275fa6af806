"""The commands of the paper: each module has `run(args)`, and beside it a text of its words."""
