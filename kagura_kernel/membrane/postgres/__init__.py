"""How a program in a box uses a PostgreSQL database without ever holding its password: the membrane signs in."""
