"""The default method: slow feature analysis, restarts, EM with forward-backward, consensus."""
