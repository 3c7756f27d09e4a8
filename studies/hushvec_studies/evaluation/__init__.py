"""What reviewers and users of private embeddings ask for, on public benchmarks or on data of one's own, as one page.

sources         where a benchmark comes from, its license, and how its files are read
collection      documents, queries and judgments of a search, and what was left out of them
vectors         the benchmarks with their vectors, split into public and private rows
contenders      the mechanisms that are compared, by name
attacks         what adversaries learn from released rows, beside what the claim allows
search, labels  one measurement each: a mechanism at an epsilon on a task
redacted        what redaction protects in texts with known identifiers
rewritten       what rewritten texts keep and give away, beside word-level metric privacy
findings        what the figures say, in sentences; text_findings: of redaction and rewriting
report          tables, figures and the page
"""
