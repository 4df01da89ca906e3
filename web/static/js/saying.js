// Segments: what was said, as a step has heard it, or as it waits in the queue or the thread to be heard.
// One segment has the same key in all three: the id of its message, else of its action.

import { objectOf, objectsIn } from "./copilotwords.js";

const NOBODY = "USER";
/** fields that make an input a command, whose text nobody has said unless a segment says so */
const COMMANDS = ["events", "trigger", "agent_ids", "variables", "agents", "remove_agents", "groups", "overrides", "decide"];

/** What began a step: its message, else its action; what the session did by itself has the step's id. */
export function keyOf(step) {
  const read = objectsIn(objectOf(step.guidance).inputs);
  const named = read.find((input) => input.message_id)?.message_id;
  return named ?? (read.length && step.action_id ? step.action_id : step.id);
}

/** The segment that a step heard; null when nobody spoke. */
export function heardIn(step) {
  const segment = objectOf(objectOf(step.data).segment);
  return segment.text ? { ...plain(segment), key: keyOf(step), iteration: step.iteration, created_at: step.created_at } : null;
}

/** The segment in an `agent_input` that is open; null when it is a command. */
export function waitingIn(action) {
  const { text, data } = objectOf(action.payload);
  const about = objectOf(action.metadata);
  return unheard({ text, data, sender: about.sender, key: about.message_id ?? action.id, created_at: action.created_at });
}

/** The segment in a post of the thread; null when it is none. */
export function postedIn(message) {
  if (message.event_type !== "post") return null;
  return unheard({ ...message, sender: message.user_id, key: message.message_id });
}

function unheard({ text, data, sender, key, created_at }) {
  const told = objectOf(data);
  if (!text || (!told.segment && COMMANDS.some((name) => name in told))) return null;
  const segment = { speaker: sender || NOBODY, ...objectOf(told.segment), text };
  return { ...plain(segment), key, iteration: null, created_at };
}

const plain = ({ speaker, text, timestamp, is_final }) => ({ speaker: String(speaker || NOBODY), text: String(text), timestamp, is_final: is_final !== false });
