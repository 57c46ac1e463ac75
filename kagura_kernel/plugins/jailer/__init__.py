"""What runs inside a plugin's jail: it loads the plugin from the bytes it is sent, and calls it when it is told to."""
