"""Check new videos: report missing, repeated, misordered, unusual and unknown parts."""
