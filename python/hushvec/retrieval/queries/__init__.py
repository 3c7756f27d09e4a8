"""Private questions to a public index: what is asked leaves as one private row, and answers are ranked at home.

    question.py       what leaves, what comes back, and the answer
    private_query.py  the asker's side and the holder's
    choice.py         how many codes a codebook should have for questions, by simulated ones
    kept.py           questions asked before, which are answered from what is at home
"""
