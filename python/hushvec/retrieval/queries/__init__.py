"""Private questions to a public index: a question is sent as one private row, and the asker ranks the answers.

question.py       what is sent, what comes back, and the answer
private_query.py  the asker's side and the holder's
choice.py         how many codes a codebook should have for questions, by simulated ones
kept.py           questions asked before, which are answered from the asker's own copy
"""
