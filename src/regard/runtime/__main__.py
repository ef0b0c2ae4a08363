"""`python -m regard.runtime FOLDER`."""

from regard.runtime.command import main

main()
