from kagura_plugin import ArgumentRefused
from kagura_plugin.arguments import Config, text_of

SCHEMA = {"word": {"type": "string", "description": "How people are greeted", "default": "Hello"}}


def create_host_functions(config):
    word = Config(config).text("word")

    def greet(name: str) -> str:
        """A greeting for somebody."""
        if not text_of("name", name, most=100).strip():
            raise ArgumentRefused("name is empty.")
        return f"{word}, {name}!"

    return {"greeting": {"greet": greet}}
