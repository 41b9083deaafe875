"""The fault campaign: kills, hostile files and crowded machines, each case in its own process."""
