"""The client that blocks, made of the one with `async` by `make_sync`, all but `connection.py` and `mirror.py`."""
