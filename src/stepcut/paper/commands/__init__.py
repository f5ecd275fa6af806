"""The commands of the paper: each module has `run(args)` and a text file of options."""
