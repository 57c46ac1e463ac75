"""What of a brain's service a box may use."""

import json
from typing import Any

import pytest

from kagura_kernel.membrane.credentials.injection.caller import BadRequest
from kagura_kernel.membrane.model_api import check_body, check_head, kept_headers

ASK: dict[str, Any] = {"model": "m-1", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]}


def asked(**more: Any) -> bytes:
    return json.dumps({**ASK, **more}).encode()


@pytest.mark.parametrize(
    ("method", "target"),
    [
        (b"POST", b"/v1/messages"),
        (b"POST", b"/v1/messages?beta=true"),
        (b"POST", b"/v1/messages/count_tokens?beta=true"),
        (b"GET", b"/v1/models"),
        (b"HEAD", b"/"),
    ],
)
def test_what_a_brain_thinks_with_passes(method: bytes, target: bytes) -> None:
    check_head(method, target)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        (b"GET", b"/v1/messages"),
        (b"DELETE", b"/v1/messages"),
        (b"POST", b"/v1/messages/"),
        (b"POST", b"//v1/messages"),
        (b"POST", b"/v1/Messages"),
        (b"POST", b"/v1/messages%2fbatches"),
        (b"POST", b"/v1/messages/batches"),
        (b"POST", b"/v1/messages?beta=true&x=1"),
        (b"POST", b"/v1/files"),
        (b"POST", b"/v1/complete"),
        (b"GET", b"/v1/files"),
        (b"GET", b"/v1/organizations/me"),
        (b"GET", b"/"),
        (b"POST", b""),
    ],
)
def test_every_other_path_method_and_query_is_refused(method: bytes, target: bytes) -> None:
    with pytest.raises(BadRequest, match="no part of what a sealed brain uses"):
        check_head(method, target)


def test_a_plain_request_tells_its_model() -> None:
    tools = [{"name": "Bash", "input_schema": {}}, {"type": "custom", "name": "x"}, {"type": "bash_20250124"}]
    assert check_body(asked(tools=tools, system=[{"type": "text", "text": "be good"}])) == "m-1"


@pytest.mark.parametrize(
    "more",
    [
        {"mcp_servers": [{"type": "url", "url": "https://a.example"}]},
        {"container": {"skills": []}},
        {"container": "container_1"},
        {"speed": "fast"},
        {"fetch_this": "https://a.example"},
        {"service_tier": "auto"},
        {"inference_geo": "us"},
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
        {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
        {"tools": [{"type": "something_new_20300101"}]},
        {"tools": [{"type": ["custom"]}]},
        {"tools": ["web_search"]},
        {"tools": {"type": "web_search_20250305"}},
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "u"}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]}]},
        {"messages": [{"content": [{"type": "tool_result", "content": [{"source": {"file_id": "f"}}]}]}]},
        {"system": [{"type": "document", "source": {"type": "file", "file_id": "f"}}]},
        {"tools": [{"type": "memory_cloud_20300101", "name": "memory"}]},
        {"tools": [{"type": "bash_", "name": "bash"}]},
        {"tools": [{"type": "computer_20990101", "name": "computer"}]},
        {"messages": [{"content": [{"type": "document", "source": {"type": "bucket", "name": "b"}}]}]},
        {"messages": [{"content": [{"type": "image", "source": {"data": "…"}}]}]},
        {"messages": [{"content": [{"type": "image", "source": {"type": ["base64"]}}]}]},
        {"messages": [{"content": [{"type": "image", "source": [{"type": "base64"}]}]}]},
        *(
            {"messages": [{"role": "user", "content": [block]}]}
            for block in (
                {"type": "image", "source": "https://a.example/x.png"},
                {"type": "document", "source": "https://a.example/x.pdf"},
                {"type": "image", "source": {"type": "base64", "data": "", "url": "https://a.example"}},
                {"type": "image", "source": {"type": "text", "data": ""}},
                {"type": "image_url", "image_url": {"url": "https://a.example"}},
                {"type": "text", "text": "t", "image_url": "https://a.example"},
                {"type": "web_page", "href": "https://a.example"},
                {"type": "server_tool_use", "id": "s", "name": "web_fetch", "input": {"url": "https://a.example"}},
                {"type": "mcp_tool_use", "id": "m", "name": "x", "server_name": "s", "input": {}},
                {"type": "web_fetch_tool_result", "tool_use_id": "s", "content": {"url": "https://a.example"}},
                {
                    "type": "tool_use",
                    "id": "t",
                    "name": "x",
                    "input": {},
                    "caller": {"type": "code_execution_20250825"},
                },
                {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_use", "input": {}}]},
                {
                    "type": "tool_addition",
                    "tool": {"type": "tool_definition", "definition": {"type": "web_fetch_20250910"}},
                },
                {"type": "tool_addition", "tool": {"type": "mcp_server", "url": "https://a.example"}},
                {"text": "without a sort"},
                "https://a.example",
            )
        ),
        {"messages": [{"role": "user", "content": {"type": "text", "text": "t"}}]},
        {"messages": [{"role": "user", "content": "t", "url": "https://a.example"}]},
        {"messages": [{"role": "user", "content": "t", "output_config": {"webhook": "https://a.example"}}]},
        {"messages": "https://a.example"},
        {"system": {"type": "url", "url": "https://a.example"}},
        {"system": [{"type": "image", "source": {"type": "base64", "data": ""}}]},
        {"context_management": {"edits": [{"type": "clear_thinking_20251015", "url": "https://a.example"}]}},
        {"context_management": {"edits": [{"type": "clear_thinking_20251015", "file_id": "f"}]}},
        {"context_management": {"edits": [{"type": "compact_20260112"}]}},
        {"context_management": "https://a.example"},
        {"output_config": {"webhook": "https://a.example"}},
        {"output_config": {"format": {"type": "json_schema", "schema": {}, "url": "https://a.example"}}},
        {"metadata": {"callback": "https://a.example"}},
        {"metadata": "https://a.example"},
        {"thinking": {"type": "enabled", "sink": "https://a.example"}},
        {"tool_choice": {"type": "auto", "url": "https://a.example"}},
        {"cache_control": {"type": "ephemeral", "bucket": "b"}},
        {"stop_sequences": [{"url": "https://a.example"}]},
        {"tools": [{"name": "x", "input_schema": {}, "mcp_server_url": "https://a.example"}]},
        {"tools": [{"name": "x", "input_schema": {}, "allowed_callers": ["code_execution_20250825"]}]},
        {"tools": [{"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}]},
    ],
)
def test_what_the_service_would_reach_out_for_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        check_body(asked(**more))


def test_what_lies_in_the_request_itself_passes() -> None:
    text = {"type": "text", "media_type": "text/plain", "data": "hello"}
    whole = {"type": "content", "content": [{"type": "text", "text": "hello"}]}
    image = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}
    found = {"type": "search_result", "source": "https://a.example", "title": "t", "content": []}
    content = [{"type": "document", "source": text}, {"type": "document", "source": whole}, found]
    told = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": image}]}
    assert check_body(asked(messages=[{"role": "user", "content": [*content, told]}])) == "m-1"


def test_what_a_model_says_to_its_tools_may_be_anything() -> None:
    use = {"type": "tool_use", "name": "x", "input": {"type": "url", "file_id": "mine", "url": "https://a.example"}}
    schema = {"type": "object", "properties": {"type": {"const": "url"}}}
    tools = [{"name": "x", "input_schema": schema}]
    assert check_body(asked(messages=[{"role": "assistant", "content": [use]}], tools=tools)) == "m-1"


def test_a_conversation_in_all_that_it_may_hold_passes() -> None:
    kept = {"type": "ephemeral", "ttl": "1h", "scope": "global"}
    tool = {"name": "x", "description": "d", "input_schema": {"$ref": "y"}, "strict": True, "defer_loading": True}
    use = {"type": "tool_use", "id": "t", "name": "x", "input": {"a": [{"b": 1}]}, "caller": {"type": "direct"}}
    answer = [{"type": "thinking", "thinking": "…", "signature": "s"}, {"type": "redacted_thinking", "data": "d"}, use]
    cited = {"type": "text", "text": "t", "citations": [{"type": "char_location", "cited_text": "t"}]}
    told = [{"type": "tool_reference", "tool_name": "x"}, {"type": "text", "text": "t", "cache_control": kept}]
    change = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool}}
    messages = [
        {"role": "assistant", "content": [*answer, {**cited, "cache_control": None}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": told, "is_error": False}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "as text"}]},
        {"role": "system", "content": [], "output_config": {"effort": "low", "timing": {"type": "now", "now": "n"}}},
        {"role": "system", "content": [change], "clear_at": "next_user_message"},
        {"role": "system", "content": [{"type": "tool_removal", "tool": {"type": "tool_reference", "name": "x"}}]},
    ]
    whole = asked(
        messages=messages,
        system="be good",
        stream=True,
        metadata={"user_id": "u"},
        tools=[tool],
        tool_choice={"type": "tool", "name": "x"},
        stop_sequences=["end"],
        thinking={
            "type": "adaptive",
            "display": "updates",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"},
        },
        context_management={
            "edits": [
                {"type": "clear_thinking_20251015", "keep": "all"},
                {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}},
                {
                    "type": "clear_tool_uses_20250919",
                    "trigger": {"type": "tool_uses", "value": 9},
                    "exclude_tools": ["x"],
                },
            ]
        },
        output_config={
            "effort": "high",
            "format": {"type": "json_schema", "schema": {"anyOf": [{}]}},
            "task_budget": {"type": "tokens", "total": 9},
        },
    )
    assert check_body(whole) == "m-1"


def test_a_refusal_names_the_place_and_its_reason() -> None:
    with pytest.raises(BadRequest) as refused:
        check_body(asked(metadata={"callback": "https://a.example"}))
    assert refused.value.text.startswith("`metadata.callback` is no part of what a sealed brain asks for")
    with pytest.raises(BadRequest) as refused:
        check_body(asked(messages=[{"role": "user", "content": [{"type": "server_tool_use"}]}]))
    assert refused.value.text.startswith("`messages[0].content[0]` is of the sort 'server_tool_use'")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"no json",
        b'{"messages": []}',
        b'{"model": 1}',
        b'{"model": "a", "model": "b"}',
        b'{"model":"a","messages":[{"content":[],"content":[{"type":"image"}]}]}',
        b'{"model": "a"} {"model": "b"}',
        b'\xff\xfe{"model": "a"}',
        b'{"a":' * 100_000,
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        check_body(body)


def test_headers_that_are_not_known_stay_in_the_box() -> None:
    given = [
        (b"content-type", b"application/json"),
        (b"anthropic-version", b"2023-06-01"),
        (b"x-stainless-os", b"Linux"),
        (b"x-api-key", b"of somebody else"),
        (b"authorization", b"Bearer of somebody else"),
        (b"x-anything", b"1"),
    ]
    assert [name for name, _ in kept_headers(given)] == [b"content-type", b"anthropic-version", b"x-stainless-os"]


def test_of_the_betas_only_known_ones_leave_the_box() -> None:
    given = [
        (b"anthropic-beta", b"effort-2025-11-24, mcp-client-2025-11-20,context-management-2025-06-27,new-2031-01-01"),
        (b"anthropic-beta", b"files-api-2025-04-14,code-execution-2025-08-25,web-fetch-2025-09-10"),
        (b"anthropic-beta", b"fast-mode-2026-02-01,\xff"),
    ]
    assert kept_headers(given) == [(b"anthropic-beta", b"effort-2025-11-24,context-management-2025-06-27")]
