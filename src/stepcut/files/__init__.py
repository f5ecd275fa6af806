"""Files: written whole or not at all, kept in a cache, on this disk or at an address (s3://, gs://)."""
