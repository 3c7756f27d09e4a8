"""Spans and a redacted text belong together."""


def assert_rebuilt(text, result):
    """The spans follow each other, hold what stands in their places, and with their placeholders make the redacted text."""
    position, parts = 0, []
    for span in result.spans:
        assert span.start >= position and text[span.start : span.end] == span.text
        parts += (text[position : span.start], span.placeholder)
        position = span.end
    assert "".join((*parts, text[position:])) == result.text
