"""The host's side of a plugin's jail: starts its box, sends the plugin in, calls it, and believes nothing it says."""
