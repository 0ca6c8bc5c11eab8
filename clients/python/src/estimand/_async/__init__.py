"""The client with `async`.

`make_sync` makes the folder beside it of this one, all but `connection.py` and `mirror.py`.
"""
