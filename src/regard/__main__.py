"""`python -m regard` is `regard`, for where its script is not in the path."""

from regard.cli.main import run

if __name__ == "__main__":
    run()
