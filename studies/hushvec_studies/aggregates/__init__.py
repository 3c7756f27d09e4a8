"""What classifiers of many people's rows keep at small epsilon."""
