"""Binary rows: the container, its readers, chunks of files, columns and vocabularies."""
