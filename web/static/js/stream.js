// What a running step says: text that grows while its model calls are answered, until the step itself is stored.
//
// A piece says where it belongs. Of the streams of one call only the newest counts: a call that is made again, after a
// crash or a cut, begins a new stream. Within a stream a piece stands at its offset, counted in characters. So pieces
// may come twice, and from the page and the connection at once, and the text is the same.

import { h } from "./dom.js";

const MAX_CHARS = 20_000; // of one call its end is shown
const SLACK_CHARS = 5_000; // it is cut in bites of this size
const MAX_CALLS = 6;

/** Whether an event is a piece of such a text. */
export const isPiece = ({ kind, data }) => kind === "token" && Number.isInteger(data?.stream) && typeof data.text === "string";

/** The text of one session's running step, in an element of its own. */
export class LiveText {
  constructor(place) {
    this.place = place;
    this.stored = -1; // the last step that is stored
    this.iteration = -1; // the step that is shown
    this.calls = new Map();
  }

  get isEmpty() {
    return this.calls.size === 0;
  }

  /** Put a piece where it belongs. */
  take({ iteration, epoch, data }) {
    if (iteration <= this.stored || iteration < this.iteration) return;
    if (iteration > this.iteration) this.#begin(iteration);
    const call = this.#callOf(data, epoch ?? 0);
    if (!call) return; // of a stream that is void
    const points = [...data.text];
    if (data.offset > call.end) call.node.appendData("… ");
    call.node.appendData(points.slice(Math.max(0, call.end - data.offset)).join(""));
    call.end = Math.max(call.end, data.offset + points.length);
    shorten(call.node);
  }

  /** The steps up to `iteration` are stored: what they said stands there. */
  drop(iteration) {
    this.stored = Math.max(this.stored, iteration);
    if (this.iteration <= this.stored) this.#begin(-1);
  }

  /** The step that is shown never ended: it was cut. */
  clear() {
    this.#begin(-1);
  }

  #begin(iteration) {
    this.iteration = iteration;
    this.calls.clear();
    this.place.replaceChildren();
  }

  #callOf({ call: number, stream, offset }, epoch) {
    const known = this.calls.get(number);
    if (known && (epoch - known.epoch || stream - known.stream) < 0) return null;
    if (known && known.epoch === epoch && known.stream === stream) return known;
    const node = known?.node ?? this.#newNode();
    node.data = offset > 0 ? "… " : "";
    const call = { epoch, stream, node, end: offset };
    this.calls.set(number, call);
    return call;
  }

  #newNode() {
    const node = document.createTextNode("");
    this.place.append(h("p", {}, node));
    while (this.place.children.length > MAX_CALLS) this.place.firstElementChild.remove();
    return node;
  }
}

/** Keep the end of a long text. */
function shorten(node) {
  if (node.length <= MAX_CHARS + SLACK_CHARS) return;
  let cut = node.length - MAX_CHARS;
  if (/[\uDC00-\uDFFF]/.test(node.data[cut])) cut += 1; // not through the middle of a character
  node.replaceData(0, cut, "… ");
}
