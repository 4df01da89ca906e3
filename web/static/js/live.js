// The live protocol: rooms with cursors over one Socket.IO connection.
//
// A room keeps the newest cursor it was given. After every break it subscribes again with it, the server answers with
// what was missed, and only then do live events count: those that arrive in between wait. Rows may come twice, never
// not at all, so each page drops what it knows. Steps also carry rising numbers, see `Sequence`.

import { io } from "../vendor/socket.io.esm.min.js";
import { learnServerTime } from "./time.js";

const FIRST_DELAY_MS = 500;
const WATCHED_DELAY_MS = 2_000; // the longest pause while somebody may be watching a restart
const LONGEST_DELAY_MS = 8_000;
const WATCHED_FOR_MS = 60_000;
const CONNECT_TIMEOUT_MS = 4_000;
const ANSWER_TIMEOUT_MS = 10_000;
const AWAY_AFTER_MS = 60_000;
const HIDDEN_FLUSH_MS = 250;
const GAP_PATIENCE_MS = 200;
const GAP_RETRY_MS = 2_000;

const EVENTS = ["step", "state", "message", "token", "action", "insight", "approval", "tool"];

/** The connection. Fires "change" whenever what it says about itself changes and "back" after every catch-up. */
export class Live extends EventTarget {
  constructor() {
    super();
    this.state = "connecting"; // connecting | live | down
    this.lostAt = null;
    this.nextTryAt = null;
    this.lastHeard = null;
    this.bootId = null;
    this.attempt = 0;
    this.restarted = false;
    this.rooms = [];
    this.hasBeenLive = false;
    this.timer = null;
  }

  /** Connect, and stay connected until the page goes. */
  start() {
    this.socket = io({
      autoConnect: false,
      reconnection: false, // the pauses are ours, so that the banner can say when the next attempt is due
      transports: ["websocket", "polling"],
      tryAllTransports: true,
      timeout: CONNECT_TIMEOUT_MS,
    });
    this.socket.on("connect", () => this.#connected());
    this.socket.on("disconnect", () => this.#lost());
    this.socket.on("connect_error", () => this.#lost());
    this.socket.on("hello", (hello) => {
      learnServerTime(hello.server_time);
      this.#noticeBoot(hello.boot_id);
    });
    for (const event of EVENTS) this.socket.on(event, (data) => this.#receive(event, data));
    this.socket.on("worker", (workers) => this.dispatchEvent(new CustomEvent("worker", { detail: workers })));
    addEventListener("online", () => this.retryNow());
    addEventListener("focus", () => this.retryNow());
    addEventListener("offline", () => this.socket.disconnect());
    document.addEventListener("visibilitychange", () => this.#visibilityChanged());
    this.socket.connect();
  }

  /** Follow a room from a cursor on. `handlers`: `apply(events, how) -> how many were new` and `resync()`. */
  follow(spec, cursor, handlers) {
    this.followAll([{ spec, cursor, handlers }]);
  }

  /** Follow several rooms. They may tell of the same row, each in its own time. */
  followAll(rooms) {
    this.rooms = rooms.map(({ spec, cursor, handlers }) => new Room(this, spec, cursor, handlers));
    if (this.socket.connected) this.#catchUp();
  }

  /** Try at once instead of at the end of the pause. */
  retryNow() {
    if (this.state !== "down" || this.nextTryAt === null) return;
    this.#try();
  }

  #receive(event, data) {
    this.rooms.find(({ name }) => name === data.room)?.receive(event, data);
  }

  #try() {
    clearTimeout(this.timer);
    this.nextTryAt = null;
    this.#changed();
    this.socket.connect();
  }

  #connected() {
    this.socket.io.engine.on("packet", () => {
      this.lastHeard = Date.now();
    });
    this.lastHeard = Date.now();
    this.#catchUp();
  }

  async #catchUp() {
    let missed = 0;
    try {
      for (const room of this.rooms) {
        if (!(room.isAway && document.hidden)) missed += await room.join(); // nobody looks: not yet
      }
    } catch (error) {
      // No answer, or a refusal that another cursor does not cure: begin again with a fresh connection.
      if (this.socket.connected) {
        console.warn("Could not follow the room; trying again with a new connection.", error);
        this.socket.disconnect();
      }
      return;
    }
    const wasDown = this.lostAt !== null;
    const detail = { missed, restarted: this.restarted, wasDown, again: this.hasBeenLive };
    this.attempt = 0;
    this.lostAt = null;
    this.restarted = false;
    this.hasBeenLive = true;
    this.state = "live";
    this.#changed();
    this.dispatchEvent(new CustomEvent("back", { detail }));
  }

  #lost() {
    for (const room of this.rooms) room.interrupted();
    this.state = "down";
    this.lostAt ??= Date.now();
    const longest = Date.now() - this.lostAt < WATCHED_FOR_MS ? WATCHED_DELAY_MS : LONGEST_DELAY_MS;
    const delay = Math.min(longest, FIRST_DELAY_MS * 2 ** this.attempt) * (0.75 + Math.random() / 4);
    this.attempt += 1;
    this.nextTryAt = Date.now() + delay;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#try(), delay);
    this.#changed();
  }

  #noticeBoot(bootId) {
    if (!bootId) return;
    if (this.bootId && this.bootId !== bootId) this.restarted = true;
    this.bootId = bootId;
  }

  noticeAnswer(answer) {
    this.#noticeBoot(answer.boot_id);
  }

  #visibilityChanged() {
    clearTimeout(this.awayTimer);
    if (document.hidden) {
      this.awayTimer = setTimeout(() => this.rooms.forEach((room) => room.leave()), AWAY_AFTER_MS);
      return;
    }
    this.retryNow();
    if (this.rooms.some((room) => room.isAway) && this.socket.connected) this.#catchUp();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}

const nameOf = ({ topic, session_id: session, conversation_id: thread }) => topic ?? (session ? `session:${session}` : `conversation:${thread}`);

class Room {
  constructor(live, spec, cursor, handlers) {
    this.live = live;
    this.spec = spec;
    this.name = nameOf(spec);
    this.cursor = cursor || null;
    this.handlers = handlers;
    this.needsResync = !cursor;
    this.isJoined = false;
    this.isAway = false;
    this.waiting = []; // live events that came while catching up
    this.batch = []; // live events for the next frame
    this.isScheduled = false;
  }

  /** Subscribe until nothing is missing any more; answers how many events were new. */
  async join() {
    const isAfterAway = this.isAway;
    this.isJoined = false;
    let fresh = 0;
    for (;;) {
      const answer = await this.#ask("subscribe", this.cursor ? { ...this.spec, cursor: this.cursor } : this.spec);
      if (!answer.ok) {
        if (!this.cursor) throw new Error(answer.error?.title ?? "refused");
        this.cursor = null; // the server cannot continue from there: start at now and read everything once
        this.needsResync = true;
        continue;
      }
      this.live.noticeAnswer(answer);
      fresh += this.#apply(answer.missed ?? [], { isReplay: true, isAfterAway });
      this.cursor = answer.cursor;
      if (!answer.more) break;
    }
    this.isJoined = true;
    this.isAway = false;
    this.#take(this.waiting.splice(0));
    if (this.needsResync) {
      await this.handlers.resync?.();
      this.needsResync = false;
    }
    return fresh;
  }

  receive(event, data) {
    const entry = { event, data };
    if (this.isJoined) this.#take([entry]);
    else this.waiting.push(entry);
  }

  /** The connection broke: what waited comes again with the next answer. */
  interrupted() {
    this.isJoined = false;
    this.waiting = [];
  }

  /** Nobody looks: let the server forget this page; the cursor stays. */
  leave() {
    this.isAway = true;
    if (!this.isJoined) return; // the connection is lost: the next one does not join either
    this.#flush();
    this.isJoined = false;
    this.live.socket.emit("unsubscribe", this.spec);
  }

  async #ask(event, body) {
    return this.live.socket.timeout(ANSWER_TIMEOUT_MS).emitWithAck(event, body);
  }

  #take(entries) {
    if (!entries.length) return;
    this.batch.push(...entries);
    this.cursor = entries.at(-1).data.cursor ?? this.cursor;
    if (this.isScheduled) return;
    this.isScheduled = true;
    if (document.hidden) setTimeout(() => this.#flush(), HIDDEN_FLUSH_MS);
    else requestAnimationFrame(() => this.#flush());
  }

  #flush() {
    this.isScheduled = false;
    this.#apply(this.batch.splice(0), { isReplay: false, isAfterAway: false });
  }

  #apply(entries, how) {
    return entries.length ? (this.handlers.apply(entries, how) ?? entries.length) : 0;
  }
}

/** Keeps rows in the order of their numbers: drops what is known, waits for what is late, fetches what is missing. */
export class Sequence {
  /** `next`: the number to come. `fetchRange(from, to)` answers rows, `deliver(rows, how)` gets them in order. */
  constructor(next, { fetchRange, deliver }) {
    this.next = next;
    this.fetchRange = fetchRange;
    this.deliver = deliver;
    this.early = new Map();
    this.timer = null;
  }

  /** Offer rows in any order; answers how many of them were new. */
  offer(rows, how = {}) {
    let fresh = 0;
    for (const row of rows) {
      if (row.iteration < this.next || this.early.has(row.iteration)) continue;
      this.early.set(row.iteration, row);
      fresh += 1;
    }
    this.#drain(how);
    return fresh;
  }

  #drain(how) {
    const ready = [];
    while (this.early.has(this.next)) {
      ready.push(this.early.get(this.next));
      this.early.delete(this.next);
      this.next += 1;
    }
    if (ready.length) this.deliver(ready, how);
    if (this.early.size && this.timer === null) this.timer = setTimeout(() => this.#closeGap(), GAP_PATIENCE_MS);
  }

  async #closeGap() {
    this.timer = null;
    if (!this.early.size) return;
    const first = Math.min(...this.early.keys());
    if (first <= this.next) return;
    try {
      const rows = await this.fetchRange(this.next, first - 1);
      this.offer(rows);
      if (this.next < first && !rows.length) this.next = first; // the store has no such rows: go on
      this.#drain({});
    } catch {
      this.timer = setTimeout(() => this.#closeGap(), GAP_RETRY_MS);
    }
  }
}

/** Remembers the newest stamp of each row, so that a row that comes late or twice changes nothing. */
export class Newest {
  constructor() {
    this.versions = new Map();
  }

  /** Whether this version of a row is to be shown. A row without a stamp is, and begins anew: it was opened again. */
  accepts(id, stamp) {
    const known = this.versions.get(id);
    if (known && stamp && stamp < known) return false;
    if (stamp) this.versions.set(id, stamp);
    else this.versions.delete(id);
    return true;
  }
}
