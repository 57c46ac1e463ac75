"""Tables that show themselves as live boards below a cell: leases, runs, costs."""
