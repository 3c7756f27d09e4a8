"""Helpers for every layer: checks of arguments, lines of text, atomic files, progress. Private to hushvec.

What is named here is for all packages; the rest of a module is for those beside it.
"""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use

if TYPE_CHECKING:
    from hushvec._util.display import (
        Progress,
        Sheet,
        aligned,
        announced,
        as_text,
        at_least,
        at_most,
        confidence_of,
        number,
        plural,
        printable,
        share,
        shown,
    )
    from hushvec._util.lazy import at_first_use, needs_extra
    from hushvec._util.lines import (
        SHIPPED_NOTES,
        SHIPPED_SENTENCES,
        decoded,
        distinct_texts,
        json_line,
        json_object,
        json_record,
        lines_of_file,
        numbered_lines,
        require_utf8,
        shipped_texts,
        texts_of_file,
    )
    from hushvec._util.os_files import (
        allow_open_files,
        call_around_fork,
        ignores_lock_limit,
        lock_limit,
        mounts,
        print_utf8,
        sync,
    )
    from hushvec._util.publish import (
        PRIVATE,
        SHARED,
        Discarded,
        is_first_to_write,
        mode_of,
        private_file,
        private_folder,
        private_opener,
        published,
        published_bytes,
        published_folder,
        published_text,
        receipt_path,
        sync_folder,
    )
    from hushvec._util.recording import require_no_recorder
    from hushvec._util.rounding import (
        down,
        exp_up,
        float32_down,
        float32_up,
        fraction_up,
        log_ratio_up,
        next_down,
        product_up,
        quotient_down,
        root_up,
        up,
    )
    from hushvec._util.statistics import (
        Estimate,
        adjusted,
        binom_logpmf_down,
        binom_p_value,
        binom_sf,
        clopper_pearson,
        clopper_pearson_lower,
        clopper_pearson_upper,
        fisher_p_value,
        norm_logsf,
        norm_sf,
        wilson_upper,
        with_margin,
    )
    from hushvec._util.validate import flag, kind, nearest, nearest_of, whole_number

__all__ = [
    "PRIVATE", "SHARED", "SHIPPED_NOTES", "SHIPPED_SENTENCES", "Discarded", "Estimate", "Progress", "Sheet", "adjusted",
    "aligned", "allow_open_files", "announced", "as_text", "at_first_use", "at_least", "at_most", "binom_logpmf_down",
    "binom_p_value", "binom_sf",
    "call_around_fork", "clopper_pearson", "clopper_pearson_lower", "clopper_pearson_upper", "confidence_of", "decoded",
    "distinct_texts", "down", "exp_up", "fisher_p_value", "flag", "float32_down", "float32_up", "fraction_up",
    "ignores_lock_limit", "is_first_to_write", "json_line", "json_object", "json_record", "kind", "lines_of_file", "lock_limit",
    "log_ratio_up", "mode_of", "mounts", "nearest", "nearest_of", "needs_extra", "next_down", "norm_logsf", "norm_sf", "number",
    "numbered_lines", "plural", "print_utf8", "printable", "private_file", "private_folder", "private_opener", "product_up",
    "published", "published_bytes", "published_folder", "published_text", "quotient_down", "receipt_path", "require_no_recorder",
    "require_utf8", "root_up", "share", "shipped_texts", "shown", "sync", "sync_folder", "texts_of_file", "up", "whole_number",
    "wilson_upper", "with_margin",
]

__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "display": "Progress Sheet aligned announced as_text at_least at_most confidence_of number plural printable share shown",
        "lazy": "at_first_use needs_extra",
        "lines": (
            "SHIPPED_NOTES SHIPPED_SENTENCES decoded distinct_texts json_line json_object json_record lines_of_file "
            "numbered_lines require_utf8 shipped_texts texts_of_file"
        ),
        "os_files": "allow_open_files call_around_fork ignores_lock_limit lock_limit mounts print_utf8 sync",
        "publish": (
            "PRIVATE SHARED Discarded is_first_to_write mode_of private_file private_folder private_opener published "
            "published_bytes published_folder published_text receipt_path sync_folder"
        ),
        "recording": "require_no_recorder",
        "rounding": "down exp_up float32_down float32_up fraction_up log_ratio_up next_down product_up quotient_down root_up up",
        "statistics": (
            "Estimate adjusted binom_logpmf_down binom_p_value binom_sf clopper_pearson clopper_pearson_lower clopper_pearson_upper "
            "fisher_p_value norm_logsf norm_sf wilson_upper with_margin"
        ),
        "validate": "flag kind nearest nearest_of whole_number",
    },
    below=("lines", "os_files", "publish", "validate"),
)
