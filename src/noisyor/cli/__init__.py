"""The command line; lower layers neither print nor parse options."""
