"""Exception classes that a caller may want to catch by name. Plain mistakes raise ValueError or TypeError."""


class ReceiptError(ValueError):
    """A receipt that cannot be read: not JSON, a field missing, unknown or of the wrong kind."""


class MissingExtraError(ImportError):
    """A feature needs a package that an extra of hushvec installs.

    The message names the extra, as in `pip install 'hushvec[text]'`.
    """

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs more packages: pip install 'hushvec[{extra}]'")
        self.extra = extra
