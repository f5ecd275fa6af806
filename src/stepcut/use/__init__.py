"""Uses of a procedure: check a new video, guide a person through the steps, hand a plan to a planner."""
