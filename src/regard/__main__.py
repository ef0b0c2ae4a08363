"""`python -m regard` is the same as `regard`, for when the script is not on the path."""

from regard.cli.main import run

if __name__ == "__main__":
    run()
