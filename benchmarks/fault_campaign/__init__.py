"""The fault campaign: kills, hostile files and crowded machines, every case in a process of its own."""
