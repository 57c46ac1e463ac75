"""What `%kagura WORD …` and `/WORD …` do in a notebook: a function for each command, thin above the cockpit."""
