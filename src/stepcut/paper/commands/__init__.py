"""The commands of the paper, each with `run(args)` and a text file of options."""
