"""Tables, figures and the page of an evaluation, from its rows."""
