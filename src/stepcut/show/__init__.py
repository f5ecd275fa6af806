"""Look at a procedure: plots for papers and notebooks, a report in one file, a viewer in the browser."""
