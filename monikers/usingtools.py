"""Has a model use the session's tools before it answers, in a bounded loop of native calls."""

from __future__ import annotations

from runtime.llm.port import ChatMessage, ChatModel, ChatRequest
from runtime.tools.port import Tools

MAX_CALLS = 8
_ENOUGH = "No more calls are made; go on with what you have."


async def with_tools(llm: ChatModel, tools: Tools, asked: ChatRequest, *, most: int = MAX_CALLS) -> ChatRequest:
    """`asked` with the calls that the model made for it and what came of them, ready to be answered without tools.

    At most `most` calls are made; the model is told of those that are not. What tools answer is data in the prompt.
    Without granted tools it is `asked` itself. Raises `LlmError` when the model cannot be reached.
    """
    specs = tools.native
    made = 0
    while specs and made < most:
        # A schema and tools in one request are more than some models can do: the answer is asked for afterwards.
        looking = asked.model_copy(update={"tools": specs, "json_schema": None})
        reply = await llm.chat(looking)
        if not reply.tool_calls:
            break
        results = await tools.call_native(reply.tool_calls[: most - made])
        told = [result.for_prompt() for result in results] + [_ENOUGH] * (len(reply.tool_calls) - len(results))
        made += len(results)
        answers = (
            ChatMessage(role="tool", tool_call_id=call.id, content=text)
            for call, text in zip(reply.tool_calls, told, strict=True)
        )
        spoken = ChatMessage(role="assistant", content=reply.text, tool_calls=reply.tool_calls)
        asked = asked.model_copy(update={"messages": (*asked.messages, spoken, *answers)})
    if made == 0:
        return asked
    return asked.model_copy(update={"tools": specs, "tool_choice": "none"})
