"""Files: atomic writing, the cache, and remote addresses (s3://, gs://)."""
