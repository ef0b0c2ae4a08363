"""`python -m regard.runtime FOLDER`."""

from regard.runtime.command import main

if __name__ == "__main__":
    main()
