"""An MCP server for tests, on standard input and output: its tools behave well, or as badly as their names say.

Standard library only: it is started in boxes as `python3 -c SOURCE MODE`. `MODE` says how it begins: `fine`, `banner`
(greets before its first message), `silent` (never answers), `drags` (its list of tools comes slowly and has no end),
`noise` (writes what is no message), `other` (speaks a version of the protocol that nobody knows), `leaves` (ends at
once, with words), `many` (offers 300 tools by pages).
"""

from __future__ import annotations

SOURCE = r"""
import json, os, sys, time

MODE = sys.argv[1] if len(sys.argv) > 1 else "fine"
OBJECT = {"type": "object", "properties": {}}

def tool(name, schema=OBJECT, **more):
    return {"name": name, "description": "The tool " + name + ".", "inputSchema": schema, **more}

TEXT = {"type": "object", "properties": {"text": {"type": "string", "pattern": "(a+)+$"}}, "required": ["text"]}
TOOLS = [
    tool("echo", TEXT, annotations={"readOnlyHint": True}),
    tool("fail"), tool("parts"), tool("structured"), tool("secret"), tool("environment"), tool("stop"),
    tool("flood"), tool("noise"), tool("twice"), tool("silent"), tool("long"), tool("deep"), tool("complain"),
    tool("ask", {"type": "object", "properties": {"method": {"type": "string"}}}),
    tool("change"), tool("slow"),
    tool("outside", {"type": "object", "properties": {"x": {"$ref": "https://example.org/schema.json"}}}),
    tool("no object", {"type": "string"}),
]

def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()

def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}

def flood():
    while True:
        send({"method": "notifications/message", "params": {"level": "info", "data": "x"}})

def noise():
    while True:
        sys.stdout.write("this is no message\n")

def ask(method):
    send({"id": "q1", "method": method or "sampling/createMessage", "params": {}})
    answer = json.loads(sys.stdin.readline())
    return text(json.dumps(answer.get("error") or answer.get("result")))

def stop():
    sys.stderr.write("it hurts\n")
    os._exit(3)

def long():
    return text("x" * (5 << 20))

def deep():
    sys.stdout.write('{"jsonrpc":"2.0","id":9,"result":' + "[" * 70 + "]" * 70 + "}\n")
    sys.stdout.flush()
    return text("")

def complain():
    while True:
        sys.stderr.write("x" * 65536)

def twice():
    send({"id": NUMBER, "result": text("one")})
    return text("two")

def change():
    send({"method": "notifications/tools/list_changed"})
    TOOLS[:] = [one for one in TOOLS if one["name"] != "echo"]
    return text("changed")

def parts():
    return {"content": [
        {"type": "text", "text": "before"},
        {"type": "image", "mimeType": "image/png", "data": "AAAA"},
        {"type": "resource_link", "name": "a page", "uri": "https://example.org/a"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "inside"}},
    ]}

DOING = {
    "fail": lambda: text("it did not work", isError=True),
    "parts": parts,
    "structured": lambda: {"content": [], "structuredContent": {"answer": 42}},
    "secret": lambda: text("the password is " + "hunter" + "2" * 8),
    "environment": lambda: text(json.dumps(dict(os.environ))),
    "stop": stop, "flood": flood, "noise": noise, "twice": twice, "long": long, "deep": deep, "complain": complain,
    "silent": lambda: time.sleep(3600), "change": change,
}

def call(params):
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "ask":
        return ask(arguments.get("method"))
    if name not in [one["name"] for one in TOOLS]:
        raise KeyError(name)
    if name == "echo":
        return text(arguments.get("text", ""))
    return DOING[name]()

def page(params):
    if MODE != "many":
        return {"tools": TOOLS}
    first = int((params or {}).get("cursor", "0"))
    found = {"tools": [tool("t%03d" % number) for number in range(first, first + 50)]}
    return found if first >= 250 else {**found, "nextCursor": str(first + 50)}

if MODE == "banner":
    print("Toy server 1.0\nListening on stdio", flush=True)
if MODE == "noise":
    noise()
if MODE == "leaves":
    sys.stderr.write("toy: no such option\n")
    sys.exit(4)

for line in sys.stdin:
    message = json.loads(line)
    NUMBER, method = message.get("id"), message.get("method")
    if NUMBER is None or MODE == "silent":
        continue
    try:
        if method == "initialize":
            version = "1999-01-01" if MODE == "other" else message["params"]["protocolVersion"]
            info = {"name": "toy", "version": "1.0"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        elif method == "tools/list" and MODE == "drags":
            time.sleep(0.2)
            result = {"tools": [], "nextCursor": "more"}
        elif method == "tools/list":
            result = page(message.get("params"))
        elif method == "tools/call":
            result = call(message["params"])
        else:
            result = {}
        send({"id": NUMBER, "result": result})
    except KeyError as error:
        send({"id": NUMBER, "error": {"code": -32602, "message": "no such tool: %s" % error}})
"""


def toy_server(mode: str = "fine") -> tuple[str, ...]:
    """The command line that starts it in a box."""
    return ("python3", "-c", SOURCE, mode)
