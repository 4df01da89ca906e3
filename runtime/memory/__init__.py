"""Memory: what agents keep beyond a session.

port         what a moniker is given as `ctx.memory`, and what it gets back
stepmemory   that, over the store: each call is a record of the step
tools        the same for models: `search_memory` and `remember`
fake         for tests of monikers
"""
