"""Tables in Delta Lake: versions and snapshots, the log, the change between two versions, ways to apply, upkeep."""
