"""Translate standard input line by line: `python run.py < texts.txt`. A language model continues each line instead.

`python run.py --help` lists the options: beam size, n-best lists, JSON with attention.
"""

from pathlib import Path

from regard.runtime.command import main

if __name__ == "__main__":
    main(folder=Path(__file__).parent)
