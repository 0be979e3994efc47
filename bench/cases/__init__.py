"""The cases, one file each; `registry.py` names them."""
