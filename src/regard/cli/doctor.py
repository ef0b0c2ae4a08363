"""`regard doctor`."""


def doctor() -> None:
    """Show what this machine offers: versions, devices, extras."""
    from regard.doctor import examine

    findings = examine()
    widest = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(f"{finding.what:<{widest}}  {finding.found}")
