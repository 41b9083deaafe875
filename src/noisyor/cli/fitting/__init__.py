"""The commands that learn: options, the job, a cluster, and what is printed at the end."""
