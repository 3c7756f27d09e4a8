"""Private questions to a public index: a question is sent as one private row, and the client ranks the answers.

question.py       what is sent, what comes back, the answer, and the questions asked before
private_query.py  the client's side and the server's
choice.py         how many codes a codebook should have for questions, by simulated ones
"""
