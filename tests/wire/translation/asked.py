"""What a provider was asked, whatever its dialect."""

import json
from typing import Any

from tests.fakes.replies import Dialect


def thoughts_in(dialect: Dialect, body: Any) -> list[tuple[str, str, str, str]]:
    """Text, signature, what is encrypted, and the id of each thought that a provider was given back."""
    match dialect:
        case "openai_responses":
            return [
                ("".join(part["text"] for part in item["summary"]), "", item["encrypted_content"], item["id"])
                for item in body["input"]
                if item.get("type") == "reasoning"
            ]
        case "anthropic":
            blocks = [block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]]
            return [
                (block.get("thinking", ""), block.get("signature", ""), block.get("data", ""), "")
                for block in blocks
                if block["type"].endswith("thinking")
            ]
        case _:
            return [
                (detail.get("text", ""), detail.get("signature", ""), detail.get("data", ""), detail.get("id", ""))
                for message in body["messages"]
                for detail in message.get("reasoning_details", [])
            ]


def calls_in(dialect: Dialect, body: Any) -> list[tuple[str, Any]]:
    match dialect:
        case "openai_responses":
            return [(item["call_id"], json.loads(item["arguments"])) for item in body["input"] if item.get("type") == "function_call"]
        case "anthropic":
            return [(block["id"], block["input"]) for block in blocks_of(body) if block["type"] == "tool_use"]
        case _:
            return [
                (call["id"], json.loads(call["function"]["arguments"]))
                for message in body["messages"]
                for call in message.get("tool_calls", [])
            ]


def results_in(dialect: Dialect, body: Any) -> list[tuple[str, str]]:
    match dialect:
        case "openai_responses":
            return [(item["call_id"], item["output"]) for item in body["input"] if item.get("type") == "function_call_output"]
        case "anthropic":
            return [
                (block["tool_use_id"], block["content"] if isinstance(block["content"], str) else block["content"][0]["text"])
                for block in blocks_of(body)
                if block["type"] == "tool_result"
            ]
        case _:
            return [(message["tool_call_id"], message["content"]) for message in body["messages"] if message["role"] == "tool"]


def blocks_of(body: Any) -> list[Any]:
    return [block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]]
