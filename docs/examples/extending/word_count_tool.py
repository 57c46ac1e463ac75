"""A tool of one's own: counts words in a file of the run's box."""

from kagura_kernel.domain.tools import ToolResult, ToolSpec


class WordCountTool:
    spec = ToolSpec(
        "word_count",
        "Count the words in a text file of the workspace.",
        {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "Relative to the workspace."}},
            "required": ["path"],
            "additionalProperties": False,
        },
        read_only=True,
    )

    def __init__(self, place):
        self._place = place

    async def call(self, arguments, context):
        counted = await self._place.run(["wc", "-w", "--", arguments["path"]])
        if not counted.ok:
            return ToolResult(counted.stderr.text, is_error=True, exit_code=counted.exit_code)
        return ToolResult(counted.stdout.text.split()[0])
