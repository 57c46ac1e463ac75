"""Host functions that guest code may call, each audited and in a jail of its own."""
