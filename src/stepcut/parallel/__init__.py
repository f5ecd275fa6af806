"""The same work for many items, in processes of this machine or on a Ray cluster."""
