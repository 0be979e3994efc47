"""How a change of the inputs becomes a change of the view: the papers' functions, and the signed form that is run."""
