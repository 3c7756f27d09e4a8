"""Programs that embed the texts which several studies need, once."""
