"""Helpers that hushvec's own studies share with it, for programs around mechanisms, stores and releases.

Inner products whose bits depend on nothing but their own rows, exact intervals, texts and their lines, files that appear whole or
not at all, progress, and the tables that `print` shows.
"""

from hushvec._util.lines import (  # isort: skip
    SHIPPED_NOTES, SHIPPED_SENTENCES, decoded, distinct_texts, json_record, numbered_lines, require_utf8, shipped_texts,
    texts_of_file,
)
from hushvec._util.publish import (  # isort: skip
    PRIVATE, SHARED, private_folder, private_opener, published_bytes, published_folder, published_text,
)
from hushvec._native.products import inner_products, product
from hushvec._util.display import Progress, Sheet, number, plural, share, shown
from hushvec._util.lazy import needs_extra
from hushvec._util.statistics import Estimate, clopper_pearson, clopper_pearson_lower
from hushvec._util.validate import nearest, nearest_of

__all__ = [
    "PRIVATE", "SHARED", "SHIPPED_NOTES", "SHIPPED_SENTENCES", "Estimate", "Progress", "Sheet", "clopper_pearson",
    "clopper_pearson_lower", "decoded", "distinct_texts", "inner_products", "json_record", "nearest", "nearest_of",
    "needs_extra", "number", "numbered_lines", "plural", "private_folder", "private_opener", "product", "published_bytes",
    "published_folder", "published_text", "require_utf8", "share", "shipped_texts", "shown", "texts_of_file",
]
