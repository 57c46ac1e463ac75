"""From a reference to an agent's definition, read strictly."""
