"""The command line: one thin file per command, which parses, calls one library function and prints."""
