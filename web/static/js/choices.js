// Which insights of a session a reader keeps and which are dismissed: remembered in this browser, over reloads.

const MOST = 200; // of each the newest

export class Choices {
  constructor(sessionId) {
    this.place = `stepwell.copilot.${sessionId}`;
    const { kept = {}, dismissed = [] } = read(this.place);
    this.kept = new Map(Object.entries(kept)); // id -> the insight: it is shown also when the page begins without it
    this.dismissed = new Set(dismissed);
  }

  keep(insight) {
    this.kept.set(insight.insight_id, insight);
    this.#write();
  }

  letGo(id) {
    this.kept.delete(id);
    this.#write();
  }

  dismiss(id) {
    this.kept.delete(id);
    this.dismissed.add(id);
    this.#write();
  }

  show(id) {
    this.dismissed.delete(id);
    this.#write();
  }

  #write() {
    const kept = Object.fromEntries([...this.kept].slice(-MOST));
    try {
      localStorage.setItem(this.place, JSON.stringify({ kept, dismissed: [...this.dismissed].slice(-MOST) }));
    } catch {
      // no room, or storage is switched off: the choice holds as long as the page
    }
  }
}

function read(place) {
  try {
    return JSON.parse(localStorage.getItem(place)) ?? {};
  } catch {
    return {};
  }
}
