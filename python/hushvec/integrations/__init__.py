"""hushvec inside other libraries. Each module here needs the library that it is named after.
docs/integrations.md has a guide to each.

Adapters that embed texts share these arguments:

    model         a WrappedEmbeddingModel, or any model together with middleware
    middleware    a step or a list of steps; None for a model that is wrapped already
    on_receipt    called with each receipt, such as the `append` of a list
    noise_on      which rows are private releases. "documents": protects them from anyone who sees the index or its answers;
    questions are
                  embedded clean, without charge or receipt. "queries": protects questions from the holder of the index; documents are
                  embedded clean. "both": protects both, and little is found then.

They raise TypeError for a model that is neither wrapped nor comes with middleware, and ValueError for an unknown noise_on or where no
step adds noise.
"""
