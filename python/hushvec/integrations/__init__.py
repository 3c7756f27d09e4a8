"""hushvec inside other libraries. Each module here needs the library that it is named after.
docs/integrations.md has a guide to each.

Adapters that embed texts share these arguments:

    model         a WrappedEmbeddingModel, or any model together with middleware
    middleware    a step or a list of steps; None for a model that is wrapped already
    on_receipt    called with each receipt, such as the `append` of a list
    noise_on      which rows are private releases. "documents": protects them from anyone who sees the index or its answers; questions
                  are embedded clean, without charge or receipt. "queries": protects questions from the holder of the index;
                  documents are embedded clean. "both": protects both, and little is found then.
    unit_rows     released rows come to unit length after the noise, which is post-processing, and `renormalize` of their receipts says
                  so: stores that rank by L2 distance or inner product then find what cosines find. False keeps the rows of the
                  middleware. scikit-learn's adapter has no such argument: give `renormalize=True` to its middleware.

They raise TypeError for a model that is neither wrapped nor comes with middleware, and ValueError for an unknown noise_on or where no
step adds noise. At embedding they raise what the wrapped model raises, and nothing is charged for a refusal. Their guarantees are
those of the middleware, for the rows that noise_on names: each call of a method, or each batch of the host, is one release.

Stores share these:

    index         a PrivateIndex that is empty or has strings as ids. It adds the noise, to the sides that it was made with: clean
                  rows of documents go into `PrivateIndex(384, documents=VectorNoise(epsilon=16.0))`, rows of a private embedder
                  into an index without. Questions stay clean, unless the index has `queries=` or the embedder noise on them.
    keep_texts    False stores ids, vectors and metadata alone (`stores_text` for LlamaIndex)
    on_receipt    as above; receipts of documents are in `store.index.receipts` too
    person_key    the field of a document's metadata that says whom it is about, where the documents' budget counts by person
                  (`PrivacyBudget(per_person=True)`): each batch is charged to its own people. None: it is charged to everyone

They raise TypeError or ValueError for another index, and for noise from both on one side; when documents are added, what the
model and `PrivateIndex.add` raise: nothing is charged, stored or replaced then. Their guarantees are those of the index, for
vectors: `store.index.describe()` lists them. Texts and metadata are stored and returned without protection: anyone who can read a
found document does not need its vector. Filters read only these and cost nothing. One call that adds documents is one release. A
known id is replaced, which is a new release with a new charge; deleting refunds nothing. Several threads may use one store.

What applies a noise job (`hushvec.jobs.NoiseJob`) shares these:

    job           travels to the workers with the function that they call, its secret key included
    column        of the vectors
    id_column     whole numbers or strings, unique in the data set and the same in every attempt, of a job with
                  rows_by="integer-ids" or "text-ids". None: rows are named by their number, or by partition and number
    partition     number of this data set in a collection of several, whose job has rows_by="partitions"

Batches, blocks, workers, processes and repeated tasks do not change a bit of the result, as long as rows keep their names. Other
columns are passed on as they are and have no protection. Errors are those of `hushvec.jobs.noise_batch`, when rows are computed.
"""

from hushvec._util.lazy import at_first_use

with at_first_use(globals()):
    from hushvec.integrations import (  # isort: skip
        chroma as chroma, dask as dask, datasets as datasets, detectors as detectors, flower as flower, haystack as haystack,
        haystack_store as haystack_store, jax as jax, langchain as langchain, langchain_store as langchain_store,
        llama_index as llama_index, llama_index_store as llama_index_store, nvflare as nvflare, openai as openai,
        presidio as presidio, ray as ray, sentence_transformers as sentence_transformers, sklearn as sklearn, spacy as spacy,
        spark as spark, tables as tables, token_classifier as token_classifier, torch_ops as torch_ops,
        transformers as transformers,
    )
