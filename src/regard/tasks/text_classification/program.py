"""Classify standard input line by line: `python run.py < texts.txt`; `python run.py --help` lists the options."""

from pathlib import Path

from regard.runtime.command import main

if __name__ == "__main__":
    main(folder=Path(__file__).parent)
