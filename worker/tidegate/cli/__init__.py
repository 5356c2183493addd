"""The command line: parse, call, print. Every rule and every statement lives below this package."""
