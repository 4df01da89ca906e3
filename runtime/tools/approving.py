"""What a person agrees to: one call, to the last byte (S33)."""

from __future__ import annotations

import hashlib
import json
from typing import NewType

from runtime.tools.result import Call
from runtime.tools.scope import ToolScope
from runtime.tools.tool import Tool

ApprovalKey = NewType("ApprovalKey", str)


def approval_key(tool: Tool, call: Call, scope: ToolScope) -> ApprovalKey:
    """The name of exactly this call of this tool at this place of this session.

    Another byte in the arguments, another description or schema of the tool, another session or another call of the
    same session is another key. A step that is tried again has the same one (`ToolScope.call_key`).
    """
    bound = [tool.schema_hash, call.name, call.arguments, scope.session_id, scope.agent_id, scope.call_key]
    return ApprovalKey(hashlib.sha256(json.dumps(bound, sort_keys=True).encode()).hexdigest())
