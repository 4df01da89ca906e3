// Steps of a session, asked of the server.

import { ask } from "./dom.js";

/** The steps that a query asks for: with a `limit` one page, else all of them. */
export async function stepsOf(sessionId, query) {
  const items = [];
  let cursor = null;
  do {
    const search = new URLSearchParams({ session_id: sessionId, ...query, ...(cursor ? { cursor } : {}) });
    const page = await ask("GET", `/api/agent-steps?${search}`);
    items.push(...page.items);
    cursor = query.limit ? null : page.next_cursor;
  } while (cursor);
  return items;
}
