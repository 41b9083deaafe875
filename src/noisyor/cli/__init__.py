"""The command line; nothing below it prints or knows an option."""
