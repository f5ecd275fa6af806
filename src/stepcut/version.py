"""The version of stepcut, in one place, and those of what it runs with."""

__version__ = "0.4.0"


def versions() -> dict[str, str]:
    """What a result was made with: stepcut, Python and the packages that compute; torch where it is installed."""
    import platform
    from importlib import metadata  # slow to load, and `import stepcut` is to be quick

    found = {"stepcut": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "scikit-learn", "torch"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
