"""What makes an agent better with time: checkpoints, plans, lessons, earned trust."""
