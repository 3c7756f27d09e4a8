"""What reviewers and users of private embeddings ask for, on public benchmarks or on data of one's own, as one page.

collection   where a benchmark comes from, its license, and its documents, queries and judgments, or the user's
vectors      the benchmarks with their vectors, split into public and private rows
contenders   the mechanisms that are compared, by name
cells        one measurement of search or classification: a mechanism at an epsilon on a task
attacks      what adversaries learn from released rows, beside what the claim allows
texts        what rewritten texts keep and give away
plan         settings, and the measurements that they ask for
findings     what the figures say, in sentences
report       tables, figures and the page
"""
