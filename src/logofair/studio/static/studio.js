// The page: controls on the left, and on the right what the certified optimum of these limits does.
// It computes nothing but places on the screen: every figure comes from the session, over either transport.

const SVG = "http://www.w3.org/2000/svg";
const ROW = 30; // height of a line of the list of sites, in pixels
const PAUSE = 180; // milliseconds without a change before the frontier is drawn anew
const SPOKEN = 900; // and before a screen reader hears the verdict
const RATIOS = [[10, 1], [5, 1], [4, 1], [3, 1], [2, 1], [1, 1], [1, 2], [1, 3], [1, 4], [1, 5], [1, 10]];
const GRAVEST = ["exceeded", "unclear", "met", "not measured"];
const ODDS = { demographic_parity: "selection rate", equal_opportunity: "true positive rate",
  predictive_equality: "false positive rate", equalized_odds: "equalized odds" };

// ---------------------------------------------------------------- building blocks

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((each) => each != null && each !== false));
  return node;
}
const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
const s = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);
const show = (node, ...children) => node.replaceChildren(...children.flat(Infinity).filter((each) => each != null && each !== false));
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const points = (share) => String(Number((100 * share).toFixed(4)));
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const count = (number) => number.toLocaleString("en");
const short = (value) => (Math.abs(value) < 1e-9 ? "0" : value.toLocaleString("en", { maximumSignificantDigits: 3 }));

let ids = 0;
const newId = () => `studio-${++ids}`;

function ticks(low, high, about = 5) {
  const raw = (high - low) / about || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(at);
  return found;
}

// A slider with its number: both are inputs with labels, and say the same.
function slider(name, unit, { low = 0, high, step, free = false, onchange }) {
  const id = newId(), range = h("input", { type: "range", id, min: low, max: high, step });
  const box = h("input", { type: "number", min: low, step: "any", "aria-label": `${name}, ${unit}` });
  const none = free && h("input", { type: "checkbox" });
  const set = (text) => {
    if (text === "" || !Number.isFinite(Number(text))) return;
    onchange(Number(text));
  };
  range.addEventListener("input", () => { box.value = range.value; set(range.value); });
  box.addEventListener("change", () => { range.value = box.value; set(box.value); });
  if (none) none.addEventListener("change", () => onchange(none.checked ? null : Number(range.value)));
  const node = h("div", { class: "slider" },
    h("div", { class: "line" }, h("label", { for: id }, name), h("span", { class: "number" }, box, ` ${unit}`)),
    range, none && h("label", { class: "none" }, none, " no limit"));
  return { node, range, box, value(to, words) {
    const off = to == null;
    node.classList.toggle("off", off);
    if (none) none.checked = off;
    if (!off && document.activeElement !== box) box.value = to;
    if (!off) range.value = to;
    range.setAttribute("aria-valuetext", words ?? (off ? "no limit" : `${to} ${unit}`));
  } };
}

const button = (words, onclick, props) => h("button", { type: "button", onclick, ...props }, words);

function tableOf(caption, head, rows, props) {
  return h("table", props, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, head.map((each) => h("th", { scope: "col" }, each)))),
    h("tbody", {}, rows.map(([first, ...others]) =>
      h("tr", {}, h("th", { scope: "row" }, first), others.map((each) => h("td", {}, each))))));
}

// ---------------------------------------------------------------- transports

// In a notebook wishes and answers are messages of the widget; a newer wish makes an older one's promise void.
function overWidget(model) {
  const waiting = new Map();
  model.on("msg:custom", (message) => {
    waiting.get(message.turn)?.(message.answer);
    waiting.delete(message.turn);
  });
  return {
    hash: false,
    answer: (wish, signal) => new Promise((resolve) => {
      waiting.set(wish.turn, resolve);
      signal?.addEventListener("abort", () => waiting.delete(wish.turn) && resolve(null));
      model.send(wish);
    }),
  };
}

// ---------------------------------------------------------------- the page

class Studio {
  constructor(transport, root) {
    this.transport = transport;
    this.root = root;
    this.tab = Math.random().toString(36).slice(2);
    this.turn = 0;
    this.asking = {};
    this.hand = [];
    this.pinned = null;
    this.side = "overall";
    this.series = null; // the subject chosen by hand; null: what the verdict tells
    this.query = "";
    this.curve = null;
  }

  // Ask, and get null where a newer wish of the kind has been asked meanwhile.
  async ask(what, more = {}) {
    this.asking[what]?.abort();
    const own = (this.asking[what] = new AbortController()), turn = ++this.turn;
    let found;
    try {
      found = await this.transport.answer({ what, tab: this.tab, turn, setting: this.setting ?? null, ...more }, own.signal);
      this.gone(false);
    } catch (error) {
      if (error.name === "AbortError") return null;
      this.gone(true);
      return null;
    }
    return own === this.asking[what] ? found : null;
  }

  gone(is) {
    if (this.lost === is) return;
    this.lost = is;
    if (this.alerts) this.tell();
  }

  async start() {
    show(this.root, h("p", { class: "wait", role: "status" }, "Reading …"));
    const begun = await this.ask("start");
    if (!begun || begun.trouble) {
      const words = begun?.trouble ?? "The studio does not answer; start it again and open the address that it prints.";
      show(this.root, h("p", { class: "wait", role: "alert" }, words));
      return;
    }
    this.data = begun;
    this.several = begun.sites.length > 1;
    this.named = new Map(begun.sites.map((each) => [each.name, each.shown]));
    this.setting = begun.setting;
    this.site = begun.site;
    this.restore();
    this.build();
    if (this.transport.hash) addEventListener("hashchange", () => { if (this.restore()) { this.frame(); this.solve(); } });
    if (this.restoredPin) await this.pin(this.restoredPin);
    await this.solve();
  }

  // The state of the page as a link has it.
  restore() {
    if (!this.transport.hash || location.hash.length < 2 || location.hash === this.hash) return false;
    try {
      const found = JSON.parse(decodeURIComponent(location.hash.slice(1)));
      this.setting = { ...this.data.setting, ...found.setting };
      if (this.data.sites.some((each) => each.name === found.site)) this.site = found.site;
      this.hand = found.hand ?? [];
      this.side = found.side === "local" ? "local" : "overall";
      this.restoredPin = found.pinned ?? null;
      return true;
    } catch {
      this.trouble = "This link's state cannot be read; the page begins anew.";
      return false;
    }
  }

  remember() {
    if (!this.transport.hash) return;
    const { setting, site, side, hand } = this, pinned = this.pinned?.setting ?? null;
    this.hash = `#${encodeURIComponent(JSON.stringify({ setting, site, side, hand, pinned }))}`;
    history.replaceState(null, "", this.hash);
  }

  change(part) {
    this.setting = { ...this.setting, ...part };
    this.hand = [];
    this.frame();
    this.solve();
  }

  async solve() {
    this.waiting(true);
    const began = performance.now();
    const found = await this.ask("solve", { site: this.site, hand: this.hand });
    if (!found) return;
    this.trouble = found.trouble ?? (this.answer ? null : this.trouble);
    this.conflict = found.conflict ? found : null;
    if (found.trouble && this.answer) {
      if (this.setting.require.at(-1) === this.typed) this.sentence.value = this.typed; // to be mended, not typed again
      this.setting = this.answer.setting;
      this.frame();
    }
    if (found.limits) this.paintLimits(found.limits);
    if (found.verdict) this.paint(found);
    else if (found.command !== undefined) this.paintCommands(found);
    this.waiting(false);
    this.tell();
    this.remember();
    if (found.verdict) this.took.textContent = `certified optimum, ${Math.max(1, Math.round(performance.now() - began))} ms`;
    else this.took.textContent = "not solved";
    clearTimeout(this.later);
    this.later = setTimeout(() => this.frontier(), PAUSE);
  }

  waiting(is) {
    this.main.classList.toggle("recomputing", is);
    this.main.setAttribute("aria-busy", is);
    if (is) this.took.textContent = "recomputing …";
  }

  // ------------------------------------------------------------ the frame, built once

  build() {
    const { data } = this;
    const notionId = newId();
    this.notion = h("select", { id: notionId, onchange: () => this.change({ notion: this.notion.value }) },
      data.notions.map((each) => h("option", { value: each.name }, each.shown)));
    const byId = newId();
    this.by = h("select", { id: byId, onchange: () => this.change({ by: this.by.value || null }) },
      [["", "each attribute by itself"], ...data.attributes.map((each) => [each, each]), ["all", "their intersections"]]
        .map(([value, words]) => h("option", { value }, words)));
    const high = (side) => Math.max(10, Math.ceil(110 * data.gaps[side]));
    const tolerance = (side, words) => slider(words, "points", { high: Math.min(99, high(side)), step: 0.1, free: true,
      onchange: (value) => this.change({ [side]: value == null ? null : Number((value / 100).toPrecision(10)) }) });
    this.tolerances = { overall: tolerance("overall", this.several ? "Gap overall" : "Gap") };
    if (this.several) this.tolerances.local = tolerance("local", `Gap at each ${data.site_word}`);
    this.costs = slider("Wrongly accepted : wrongly rejected", "", { high: RATIOS.length - 1, step: 1,
      onchange: (at) => this.change({ costs: same(RATIOS[at], [1, 1]) ? null : RATIOS[at] }) });
    this.costs.box.replaceWith((this.costWords = h("b", {})));
    this.limits = h("div", { class: "limits" });
    const sentenceId = newId();
    this.sentence = h("input", { id: sentenceId, type: "text", spellcheck: "false", autocomplete: "off",
      placeholder: "selection rate gap <= 0.02 overall",
      onkeydown: (event) => { if (event.key === "Enter") this.add(this.sentence.value.trim()); } });
    this.defend = h("div", { class: "row", "aria-live": "polite" },
      button("Find them", () => this.recommend()));
    this.command = h("code", {});
    this.call = h("code", {});
    this.certifying = h("p", { class: "soft" });
    const copy = (node, what) => button("Copy", (event) => this.copy(node.textContent, event.target), { "aria-label": `Copy ${what}` });
    this.exports = ["policy", "report", "figure"].map((what) => button(what[0].toUpperCase() + what.slice(1), (event) => this.export(what, event.target)));
    this.commandBox = h("div", { class: "code" }, this.command, copy(this.command, "the command"));
    const aside = h("aside", { "aria-label": "What is required" },
      h("h1", {}, data.name),
      h("p", { class: "soft" }, data.people, h("br"), data.tested),
      h("h2", {}, h("label", { for: notionId }, "Fair means")), this.notion,
      data.attributes.length > 1 && h("p", { class: "by" }, h("label", { for: byId }, "between groups by"), this.by),
      this.tolerances.local?.node, this.tolerances.overall.node,
      h("h2", {}, "What errors cost"), this.costs.node,
      h("h2", {}, "Also require"), this.limits,
      h("div", { class: "row" },
        button("+ capacity", () => this.add(`accepted <= ${this.capacity()} people overall`)),
        button("+ ratio", () => this.add(`${ODDS[this.setting.notion]} ratio >= 0.8 overall`)),
        button("+ floor", () => this.addFloor()),
        this.several && button(`+ one ${data.site_word}`, () => this.addOwnLimit())),
      h("div", { class: "typed" }, h("label", { for: sentenceId }, "Or type a sentence"),
        this.sentence, button("Add", () => this.add(this.sentence.value.trim()))),
      h("h2", {}, "These data can defend"), this.defend, this.certifying,
      h("h2", {}, "Take it with you"),
      h("div", { class: "row" }, this.exports,
        this.transport.hash && button("Link", (event) => this.copy(location.href, event.target))),
      this.commandBox,
      h("div", { class: "code" }, this.call, copy(this.call, "the Python call")));

    this.pill = h("span", { class: "pill" });
    this.words = h("p", {});
    this.took = h("span", { class: "took" });
    this.alerts = h("div", { class: "alerts", role: "alert" });
    this.spoken = h("p", { class: "unseen", role: "status" });
    this.tiles = h("div", { class: "tiles" });
    this.places = new Places(this);
    this.compared = h("div", {});
    this.curveBox = new Frontier(this);
    this.siteBox = new Site(this);
    this.main = h("main", {},
      h("div", { class: "head" }, h("div", { class: "verdict" }, this.pill, this.words, this.took), this.spoken, this.alerts),
      h("div", { class: "body" }, this.tiles, h("div", { class: "columns" }, data.sites.length < 9
        ? [h("div", {}, this.places.node, this.curveBox.node), this.compared]
        : [this.places.node, h("div", {}, this.compared, this.curveBox.node)]),
      this.siteBox.node));
    show(this.root, h("div", { class: "frame" }, aside, this.main));
    this.frame();
    new ResizeObserver(() => { this.places.draw(); this.curveBox.draw(); this.siteBox.draw(); }).observe(this.main.lastChild);
  }

  // Set every control to what is asked for.
  frame() {
    const { setting, data } = this;
    this.notion.value = setting.notion;
    this.by.value = setting.by ?? "";
    for (const [side, each] of Object.entries(this.tolerances))
      each.value(setting[side] == null ? null : Number(points(setting[side])));
    const pair = Array.isArray(setting.costs) ? setting.costs : null;
    const at = RATIOS.findIndex((each) => same(each, pair ?? [1, 1]));
    const words = setting.costs && !pair ? `by ${data.site_word}` : (pair ?? [1, 1]).join(" : ");
    this.costWords.textContent = words;
    this.costs.value(at < 0 ? 5 : at, words);
    show(this.certifying, setting.confidence == null ? null : [
      `Exports are certified for new people at ${points(setting.confidence)} %. `,
      button("Leave that out", () => this.change({ confidence: null }))]);
  }

  paint(answer) {
    this.answer = answer;
    this.pill.textContent = answer.verdict.word;
    this.pill.className = `pill ${answer.verdict.state.replace(" ", "-")}`;
    this.words.textContent = answer.verdict.words;
    show(this.tiles, answer.tiles.map((tile) => h("div", { class: "tile" }, h("h2", {}, tile.question),
      h("div", { class: "big" }, tile.figure.replace("->", "→"), tile.unit && h("small", {}, ` ${tile.unit}`)),
      h("p", {}, tile.detail))));
    this.paintCompared();
    this.paintCommands(answer);
    this.places.paint(answer);
    this.siteBox.paint(answer);
    this.curveBox.draw();
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => { this.spoken.textContent = `${answer.verdict.word}. ${answer.verdict.words}`; }, SPOKEN);
  }

  paintCommands(answer) {
    this.command.textContent = answer.command;
    this.commandBox.hidden = !answer.command;
    this.call.textContent = answer.call;
  }

  paintCompared() {
    const { answer, pinned } = this, focused = this.compared.contains(document.activeElement);
    const own = new Map((pinned?.compared ?? []).map((line) => [line.name, line.now]));
    const head = ["", "before", "now", ...(pinned ? ["pinned"] : [])];
    const rows = answer.compared.map((line) => [line.name, line.before, h("b", {}, line.now),
      ...(pinned ? [own.get(line.name) ?? "–"] : [])]);
    show(this.compared,
      tableOf("Who changes side, and what it costs", head, rows, { class: "compared" }),
      h("div", { class: "row" },
        pinned ? button("Unpin", () => { this.pinned = null; this.repin(); })
          : button("Pin this", () => { this.pinned = this.answer; this.repin(); }),
        pinned && button("Back to what is pinned", () => this.change({ ...pinned.setting }))),
      h("p", { class: "soft" }, "Before: the best rule of each group with no limits, which need not be the rule in use today."),
      answer.prices.length > 0 && h("p", { class: "soft" }, answer.prices[0]));
    if (focused) this.compared.querySelector("button").focus();
  }

  repin() {
    this.paintCompared();
    this.curveBox.draw();
    this.remember();
  }

  async pin(setting) {
    const found = await this.ask("solve", { setting, site: null });
    if (found?.verdict) this.pinned = found;
  }

  // What stands in the way, with what to do about it.
  tell() {
    const { conflict } = this, shown = [];
    if (this.lost) shown.push("The studio was closed or cannot be reached: this is its last answer. Start it again, or reload.");
    if (this.trouble) shown.push(this.trouble);
    for (const each of this.answer?.warnings ?? []) if (!conflict) shown.push(each);
    this.pill.parentNode.classList.toggle("past", Boolean(conflict));
    const ways = (enough, words) => {
      const changes = (conflict?.changes ?? []).filter((each) => each.enough === enough);
      return changes.length > 0 && [h("p", {}, words), h("div", { class: "row" }, changes.map((each) =>
        button(each.words, () => { this.conflict = null; this.change(each.setting); })))];
    };
    show(this.alerts, conflict && h("div", { class: "conflict" },
      h("p", {}, h("b", {}, conflict.conflict), " What you see is the last answer."),
      ways(true, "The least change that resolves it:"), ways(false, "Not enough alone, but a beginning:")),
      shown.map((each) => h("p", { class: "note" }, each)));
  }

  // ------------------------------------------------------------ requirements as sentences

  paintLimits(limits) {
    const shape = limits.map((each) => [each.head, each.tail]);
    if (!same(shape, this.limitShape)) {
      this.limitShape = shape;
      this.limitControls = limits.map((each, at) => this.limitControl(each, at));
      show(this.limits, this.limitControls.map((each) => each.node));
    }
    limits.forEach((each, at) => this.limitControls[at].value(each.bound));
  }

  limitControl(limit, at) {
    const words = `${limit.head}…${limit.tail.replace(/^ people/, "")}`;
    const remove = button("×", () => this.without(at), { "aria-label": `Remove: ${limit.text}` });
    if (limit.bound == null)
      return { node: h("div", { class: "limit" }, h("span", {}, limit.text), remove), value() {} };
    const control = slider(words, limit.people ? "people" : "", {
      high: limit.people ? this.data.rows : 1, step: limit.people ? Math.max(1, Math.round(this.data.rows / 1000)) : 0.005,
      onchange: (value) => {
        const require = this.setting.require.slice();
        require[at] = `${limit.head}${limit.people ? Math.round(value) : value}${limit.tail}`;
        this.change({ require });
      } });
    if (!limit.share) control.range.remove();
    return { node: h("div", { class: "limit" }, control.node, remove), value: (to) => control.value(to) };
  }

  without(at) {
    this.change({ require: this.setting.require.filter((_, place) => place !== at) });
    this.sentence.focus();
  }

  add(text) {
    if (!text || this.setting.require.includes(text)) return;
    this.sentence.value = "";
    this.typed = text;
    this.change({ require: [...this.setting.require, text] });
  }

  capacity() {
    const now = this.answer?.accepted_people ?? this.data.rows / 2;
    const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(now, 1))) - 1);
    return Math.max(1, Math.floor(now / unit) * unit);
  }

  addFloor() {
    const { groups } = this.data, found = this.answer?.accepted ?? [];
    let at = 0;
    found.forEach((share, place) => { if (share < found[at]) at = place; });
    const bound = clamp(Math.ceil(100 * (found[at] ?? 0.1)) / 100, 0.01, 1);
    this.add(`selection rate of ${groups[at].typed} >= ${bound} overall`);
  }

  // One site's own limit: all others keep theirs, as "per site except" says.
  addOwnLimit() {
    const { setting } = this, site = this.data.sites.find((each) => each.name === this.site).typed;
    const head = `${ODDS[setting.notion]} gap <= `, bound = setting.local ?? this.ownBound(head) ?? 0.05;
    const except = setting.require.findIndex((each) => each.startsWith(head) && each.includes(" per site except "));
    const require = setting.require.slice();
    if (require.some((each) => each.startsWith(head) && each.endsWith(` at ${site}`))) return;
    if (except >= 0) require[except] += `, ${site}`;
    else if (setting.local != null) require.push(`${head}${bound} per site except ${site}`);
    this.change({ local: null, require: [...require, `${head}${bound} at ${site}`] });
  }

  ownBound(head) {
    const found = this.setting.require.find((each) => each.startsWith(head) && each.includes(" per site"));
    return found ? Number.parseFloat(found.slice(head.length)) : null;
  }

  // ------------------------------------------------------------ what takes longer

  curveKey(setting) {
    const { [this.side]: _, ...others } = setting;
    return JSON.stringify([this.side, others]);
  }

  onCurve(setting) {
    return this.curve?.key === this.curveKey(setting);
  }

  async frontier() {
    const key = this.curveKey(this.setting);
    if (this.curve?.key === key || this.conflict) return;
    const found = await this.ask("frontier", { side: this.side });
    if (!found?.points) return;
    this.curve = { ...found, key };
    this.curveBox.draw();
  }

  async recommend() {
    show(this.defend, h("span", { class: "soft" }, "Trying limits: this really fits and certifies …"));
    const found = await this.ask("recommend");
    const lines = found?.lines ?? [];
    show(this.defend, lines.map((each) => button(each.words, () => this.change(each.setting))),
      lines.length ? null : h("span", { class: "soft" }, found?.nothing || found?.trouble || "No answer came."),
      button("Find them again", () => this.recommend()));
    this.defend.querySelector("button").focus();
  }

  async export(what, pressed) {
    const words = pressed.textContent;
    this.exports.forEach((each) => { each.disabled = true; });
    pressed.textContent = "Fitting anew …";
    const found = await this.ask("export", { export: what, site: this.site });
    this.exports.forEach((each) => { each.disabled = false; });
    pressed.textContent = words;
    pressed.focus();
    if (!found) return;
    this.trouble = found.trouble ?? found.conflict ?? null;
    if (found.data) {
      const bytes = Uint8Array.from(atob(found.data), (letter) => letter.charCodeAt(0));
      const address = URL.createObjectURL(new Blob([bytes]));
      h("a", { href: address, download: found.name }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
      if (same(found.answer.setting, this.setting)) this.paint(found.answer);
      this.took.textContent = `as exported: ${found.name}`;
    }
    this.tell();
  }

  async copy(text, pressed) {
    const words = pressed.textContent;
    try {
      await navigator.clipboard.writeText(text);
      pressed.textContent = "Copied";
    } catch {
      pressed.textContent = "Select it and copy";
    }
    setTimeout(() => { pressed.textContent = words; }, 1500);
  }
}

// ---------------------------------------------------------------- every place, before and now

class Places {
  constructor(page) {
    this.page = page;
    this.choice = h("select", { "aria-label": "Which limit is drawn", onchange: () => {
      page.series = this.choice.value;
      this.paint(page.answer);
    } });
    const id = newId();
    this.search = h("input", { id, type: "search", oninput: () => { this.draw(true); } });
    this.found = h("output", { for: id });
    this.searching = h("p", { class: "search" }, h("label", { for: id }, `Find a ${page.data.site_word} `), this.search, this.found);
    this.searching.hidden = page.data.sites.length < 9;
    this.caption = h("figcaption", {});
    this.axis = h("div", { class: "axis" });
    this.body = h("tbody", {});
    this.table = h("table", { class: "places" }, h("caption", { class: "unseen" }, "Every place, before and now"),
      h("thead", { class: "unseen" }, h("tr", {}, ["place", "picture", "before -> now", "limit", "state", "people who change side"]
        .map((each) => h("th", { scope: "col" }, each)))), this.body);
    this.list = h("div", { class: "list", tabindex: 0, role: "region", "aria-label": "Every place, before and now",
      onscroll: () => this.draw() }, this.table);
    this.node = h("figure", { class: "places-box" }, h("div", { class: "row" }, this.choice), this.searching,
      this.axis, this.list, this.caption);
  }

  paint(answer) {
    const { page } = this;
    const names = answer.series.map((each) => each.subject);
    if (!same(names, this.names)) {
      this.names = names;
      show(this.choice, names.map((each) => h("option", {}, each)));
    }
    const at = Math.max(0, names.indexOf(page.series));
    this.choice.selectedIndex = at;
    const own = (this.own = answer.series[at] ?? null);
    if (own) {
      const room = (each) => (each.after == null || each.limit == null ? 9 : (own.relation === ">=" ? each.after - each.limit : each.limit - each.after));
      const rank = (each) => [each.site == null ? -1 : each.small && each.state !== "exceeded" ? 5 : GRAVEST.indexOf(each.state), room(each)];
      this.rows = own.rows.map((each) => [rank(each), { ...each, name: each.site == null ? page.data.all : page.named.get(each.site) ?? each.site }]).sort(([a], [b]) => a[0] - b[0] || a[1] - b[1]).map(([, each]) => each);
      const shown = this.rows.filter((each) => !each.small);
      const values = (shown.length ? shown : this.rows).flatMap((each) => [each.before, each.after, each.limit, each.high, each.low])
        .filter((each) => each != null).sort((a, b) => a - b);
      this.low = Math.min(0, values[0] ?? 0);
      this.high = Math.max(values.at(-1) ?? 1, this.low + 1e-3) * 1.04;
    }
    this.draw(true);
  }

  x(value) {
    return 8 + (this.wide - 16) * clamp((value - this.low) / (this.high - this.low), 0, 1);
  }

  draw(anew = false) {
    const { page, own } = this;
    if (!own) {
      show(this.body);
      show(this.axis);
      this.caption.textContent = "Nothing is required: there is nothing to draw.";
      return;
    }
    const words = this.search.value.trim().toLowerCase();
    const rows = words ? this.rows.filter((each) => each.site == null || each.name.toLowerCase().includes(words)) : this.rows;
    this.found.textContent = words ? ` ${count(rows.filter((each) => each.site != null).length)} of ${count(page.data.sites.length)}` : "";
    this.list.classList.toggle("short", rows.length < 14);
    if (anew && this.shownWords !== words) this.list.scrollTop = 0;
    this.shownWords = words;
    const broad = this.list.clientWidth > 460;
    this.wide = Math.max(90, this.list.clientWidth - (broad ? 290 : 190));
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - 4);
    const last = Math.min(rows.length, first + Math.ceil(420 / ROW) + 9);
    const key = `${first} ${last} ${this.wide} ${page.site}`;
    if (!anew && key === this.key) return;
    this.key = key;
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.site : null;
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    const space = (lines) => h("tr", { "aria-hidden": "true" }, h("td", { colspan: 6, class: "space" }));
    const above = space(), below = space();
    above.firstChild.style.height = `${first * ROW}px`;
    below.firstChild.style.height = `${(rows.length - last) * ROW}px`;
    show(this.body, first > 0 && above, rows.slice(first, last).map((each, at) => this.line(each, first + at, broad)),
      last < rows.length && below);
    if (focused) this.body.querySelector(`[data-site="${CSS.escape(focused)}"]`)?.focus();
    this.drawAxis(broad);
    const marks = [own.rows.some((each) => each.before != null) && "○ before", "● now",
      own.rows.some((each) => each.low != null) && "bar: 95 % interval", own.tested && "◇ on the people of the fit",
      "dashed: limit", own.rows.some((each) => each.small) && "grey: too few people to judge"];
    this.caption.textContent = `${own.subject}${own.unit ? `, ${own.unit}` : ""}${own.tested ? ", on other people" : ", on the people of the fit"}. ${marks.filter(Boolean).join(", ")}.`;
  }

  line(each, at, broad) {
    const { page } = this, y = ROW / 2, parts = [], chosen = each.site != null && each.site === page.site;
    if (each.low != null || each.high != null)
      parts.push(s("path", { class: "interval", d: `M${this.x(each.low ?? this.low)} ${y}H${this.x(each.high ?? this.high)}` }));
    if (each.before != null && each.after != null) parts.push(s("path", { class: "joint", d: `M${this.x(each.before)} ${y}H${this.x(each.after)}` }));
    if (each.limit != null) parts.push(s("path", { class: "limit-mark", d: `M${this.x(each.limit)} 3V${ROW - 3}` }));
    if (each.fit != null) parts.push(s("path", { class: "fit", d: `M${this.x(each.fit)} ${y - 6}l5 6l-5 6l-5 -6Z` }));
    if (each.before != null) parts.push(s("circle", { class: "before", cx: this.x(each.before), cy: y, r: 4.5 }));
    if (each.after != null) parts.push(s("circle", { class: "after", cx: this.x(each.after), cy: y, r: 5 }));
    const changed = page.answer.changed[each.site ?? ""];
    const name = each.site == null ? h("b", {}, each.name)
      : button(each.name, () => page.siteBox.choose(each.site), { class: "name", title: each.name, "data-site": each.site, "aria-pressed": String(chosen) });
    return h("tr", { class: `${each.small ? "small" : ""} ${chosen ? "chosen" : ""}`, "aria-rowindex": at + 2 },
      h("th", { scope: "row" }, name),
      h("td", { "aria-hidden": "true" }, s("svg", { width: this.wide, height: ROW, viewBox: `0 0 ${this.wide} ${ROW}` }, parts)),
      h("td", { class: "figures" }, each.words.replace("->", "→")),
      h("td", { class: "unseen" }, each.limit == null ? "none" : short(each.limit * this.own.scale)), h("td", { class: "unseen" }, each.small ? `${each.state}, too few people` : each.state),
      broad && h("td", { class: "soft", title: "people who change side" }, changed == null ? "–" : `${count(changed)} ⇄`));
  }

  drawAxis(broad) {
    const { own } = this, from = broad ? 130 : 100;
    show(this.axis, s("svg", { width: "100%", height: 18, "aria-hidden": "true" },
      s("text", { x: this.list.clientWidth - (broad ? 92 : 8), y: 13, "text-anchor": "end" }, "before → now"),
      broad && s("text", { x: this.list.clientWidth - 8, y: 13, "text-anchor": "end" }, "change side"),
      s("g", { transform: `translate(${from} 0)` }, ticks(this.low, this.high).filter((at) => this.x(at) < this.wide - 16).map((at) =>
        s("text", { x: this.x(at), y: 13, "text-anchor": "middle" }, short(at * own.scale))))));
  }
}

// ---------------------------------------------------------------- the best value at every limit

class Frontier {
  constructor(page) {
    this.page = page;
    this.picture = h("div", { class: "picture" });
    this.data = h("div", { class: "unseen" });
    const id = newId();
    this.side = h("select", { id, onchange: () => { page.side = this.side.value; page.remember(); page.frontier(); } },
      h("option", { value: "overall" }, "overall"), h("option", { value: "local" }, `at each ${page.data.site_word}`));
    this.caption = h("figcaption", {});
    this.node = h("figure", { class: "frontier" },
      h("p", { class: "row" }, h("label", { for: id }, "Best value for every limit on the gap "), page.several ? this.side : null),
      this.picture, this.caption, this.data);
  }

  draw() {
    const { page } = this, { curve, answer } = page;
    this.side.value = page.side;
    if (!curve || !answer || curve.side !== page.side) return;
    const accurate = curve.measure === "accuracy", scale = accurate ? 100 : 1;
    const now = { limit: page.setting[page.side], ...answer.drawn };
    const known = curve.points.some((each) => each.limit === now.limit) || now.limit == null || !page.onCurve(answer.setting)
      || answer.setting.confidence != null; // an export has taken room for chance, which the curve has not
    const line = [...curve.points, ...(known ? [] : [now])].sort((a, b) => a.limit - b.limit);
    const wide = Math.max(240, this.picture.clientWidth), high = 176, left = 44, bottom = high - 24;
    const most = Math.max(...line.map((each) => each.limit), page.setting[page.side] ?? 0, page.pinned?.setting[page.side] ?? 0, 0.01);
    const values = [...line, answer.drawn, ...(page.pinned?.measure === curve.measure ? [page.pinned.drawn] : [])]
      .flatMap((each) => [each.value, each.low, each.high]).filter((each) => each != null);
    let [low, top] = [Math.min(...values), Math.max(...values)];
    if (top - low < 0.002) [low, top] = [low - 0.001, top + 0.001];
    const x = (limit) => left + (wide - left - 14) * (limit ?? most) / most;
    const y = (value) => 10 + (bottom - 20) * (top - value) / (top - low);
    const place = (each) => `${x(each.limit).toFixed(1)} ${y(each.value).toFixed(1)}`;
    if (line.at(-1).limit < most) line.push({ ...line.at(-1), limit: most });  // a limit that does not bind any more
    const banded = line.filter((each) => each.low != null);
    const band = banded.length > 1 && `M${banded.map((each) => `${x(each.limit)} ${y(each.high)}`).join("L")}L${banded.slice().reverse().map((each) => `${x(each.limit)} ${y(each.low)}`).join("L")}Z`;
    const point = (each, kind, r) => s("circle", { class: kind, cx: x(each.setting[page.side]), cy: y(each.drawn.value), r });
    const label = `Best ${accurate ? "accuracy in %" : "cost per person"} for every limit on the gap ${page.side === "local" ? `at each ${page.data.site_word}` : "overall"}`;
    const drag = (event) => {
      if (!event.buttons) return;
      const at = (event.clientX - picture.getBoundingClientRect().left - left) / (wide - left - 14);
      page.change({ [page.side]: Math.round(clamp(at * most, 0, 0.99) * 1000) / 1000 });
    };
    const picture = s("svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": label },
      ticks(low, top, 4).map((at) => [s("path", { class: "grid", d: `M${left} ${y(at)}H${wide - 14}` }),
        s("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, accurate ? Number((at * scale).toFixed(2)) : short(at))]),
      ticks(0, most).map((at) => s("text", { x: x(at), y: high - 6, "text-anchor": "middle" }, Number(points(at)))),
      band && s("path", { class: "band", d: band }),
      s("path", { class: "way", d: `M${line.map(place).join("L")}` }),
      page.pinned?.measure === curve.measure && point(page.pinned, "pinned-point", 6),
      answer.measure === curve.measure && point(answer, "now-point", 8));
    picture.addEventListener("pointerdown", (event) => { this.picture.setPointerCapture(event.pointerId); drag(event); });
    this.picture.onpointermove = drag;
    show(this.picture, picture);
    const what = accurate ? "accuracy, %" : "cost per person";
    const other = page.side === "local" ? "overall" : "local", bound = page.several ? page.setting[other] : null;
    const held = bound == null ? "" : `The limit ${other === "local" ? `at each ${page.data.site_word}` : "overall"} stays at ${points(bound)}. `;
    this.caption.textContent = `${what} by limit in points${band ? ", on other people with 95 % interval" : ""}. ${held}Drag the point; grey ring: pinned.`;
    show(this.data, tableOf(label, ["limit, points", what], line.map((each) => [points(each.limit), short(each.value * scale)])));
  }
}

// ---------------------------------------------------------------- one site: scores, thresholds, and a rule made by hand

class Site {
  constructor(page) {
    this.page = page;
    const id = newId();
    this.select = h("select", { id, onchange: () => this.choose(this.select.value) },
      page.data.sites.map((each) => h("option", { value: each.name }, each.shown)));
    this.title = h("h2", {}, h("label", { for: id }, page.several ? `One ${page.data.site_word} ` : "Everyone "), page.several ? this.select : null);
    this.picture = h("div", { class: "picture" });
    this.rules = h("div", { class: "rules" });
    this.told = h("div", { class: "told", "aria-live": "polite" });
    this.node = h("section", { class: "site", "aria-label": "Scores and thresholds" }, this.title,
      h("p", { class: "soft" }, `Scores of each group, and from where people are ${page.data.accepted}. Drag a threshold to see what your own rule would cost.`),
      this.picture, this.rules, this.told);
  }

  choose(site) {
    this.page.site = site;
    this.page.places.draw();
    this.page.solve();
  }

  paint(answer) {
    this.own = answer.site;
    this.made = answer.hand ?? null;
    this.select.value = this.page.site;
    const names = this.own?.groups.map((each) => each.group);
    if (this.own && !same([this.own.name, names], this.shape)) {
      this.shape = [this.own.name, names];
      this.controls = this.own.groups.map((each) => this.control(each));
      show(this.rules, this.controls.map((each) => each.node));
    }
    this.own?.groups.forEach((each, at) => {
      const { words, slide } = this.controls[at], mine = this.mine(each);
      const people = each.before == null ? "" : ` ${(100 * each.now).toFixed(1)} % are ${this.page.data.accepted}, ${(100 * each.before).toFixed(1)} % before.`;
      words.textContent = `${each.rule}.${people}`;
      slide.value(Number(Number(mine ?? threshold(each) ?? this.own.high).toPrecision(4)));
    });
    show(this.told, this.made && [h("p", {}, h("b", {}, this.made.sentence)),
      h("ul", {}, this.made.who.slice(0, 6).map((each) => h("li", {}, each))),
      button("Back to the optimum", () => { this.page.hand = []; this.page.solve(); })]);
    this.draw();
  }

  mine(each) {
    return this.page.hand.find((one) => one.site === this.own.name && one.group === each.group)?.score;
  }

  control(each) {
    const words = h("span", {}), { low, high } = this.own;
    const slide = slider(`${each.shown}: ${this.page.data.accepted} from`, "", { low, high, step: (high - low) / 500,
      onchange: (score) => this.move(each.group, score) });
    return { words, slide, node: h("div", { class: "rule" }, slide.node, h("p", { class: "soft" }, words)) };
  }

  move(group, score) {
    const { page } = this, own = { site: this.own.name, group, score };
    page.hand = [...page.hand.filter((each) => each.site !== own.site || each.group !== group), own];
    this.draw();
    page.solve();
  }

  draw() {
    const { own, page } = this;
    if (!own) return;
    const wide = Math.max(260, this.picture.clientWidth), pair = own.groups.length === 2, each = pair ? 74 : 62, axis = 20;
    const height = own.groups.length * each + axis, middle = pair ? each : null;
    const x = (score) => 12 + (wide - 24) * clamp((score - own.low) / (own.high - own.low), 0, 1);
    const parts = [];
    own.groups.forEach((group, at) => {
      const flipped = pair && at === 1, base = pair ? (flipped ? each + axis : each) : (at + 1) * each - 14;
      const grow = (part) => (flipped ? base + part : base - part);
      const tall = pair ? each - 16 : each - 30;
      if (group.bins) {
        const densities = group.bins.map(([low, high, people]) => people / (high - low)), most = Math.max(...densities);
        const outline = group.bins.map(([low, high], bin) => `V${grow(tall * densities[bin] / most)}H${x(high)}`).join("");
        parts.push(s("path", { class: `group g${at % 4}`, d: `M${x(group.bins[0][0])} ${base}${outline}V${base}Z` }));
      }
      for (const [low, high, chance] of group.bands)
        if (chance > 0.001 && chance < 0.999) parts.push(s("rect", { class: "coin", x: x(low), width: Math.max(1, x(high) - x(low)), y: Math.min(base, grow(tall)), height: tall },
          s("title", {}, `a coin accepts ${(100 * chance).toFixed(0)} %`)));
      const mine = this.mine(group), from = mine ?? threshold(group);
      const words = group.bins ? `${group.shown}: ${from == null ? group.rule : `${page.data.accepted} from ${short(from)}${mine == null ? "" : " (yours)"}`}` : `${group.shown}: too few people to show`;
      const right = from != null && x(from) > wide * 0.6;
      parts.push(s("text", { x: from == null ? 14 : x(from) + (right ? -8 : 8), y: flipped ? base + tall + 4 : base - tall + 4, "text-anchor": right ? "end" : "start", class: "label" }, words));
      if (from == null) return;
      const line = s("path", { class: `threshold g${at % 4} ${mine == null ? "" : "mine"}`, d: `M${x(from)} ${base}V${grow(tall + 8)}` });
      const grip = s("rect", { class: "grip", x: x(from) - 9, width: 18, y: Math.min(base, grow(tall + 10)), height: tall + 10 });
      grip.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        this.picture.setPointerCapture(event.pointerId);
        this.picture.onpointermove = (moved) => {
          if (!moved.buttons) { this.picture.onpointermove = null; return; }
          const share = (moved.clientX - this.picture.getBoundingClientRect().left - 12) / (wide - 24);
          this.move(group.group, Number((own.low + clamp(share, 0, 1) * (own.high - own.low)).toPrecision(4)));
        };
      });
      parts.push(line, grip);
    });
    const axisAt = middle ?? height - axis;
    const marks = ticks(own.low, own.high).map((at) => s("text", { x: x(at), y: axisAt + 14, "text-anchor": "middle" }, short(at)));
    show(this.picture, s("svg", { width: wide, height, viewBox: `0 0 ${wide} ${height}`, role: "img",
      "aria-label": `Scores at ${own.shown}: ${own.groups.map((group) => `${group.shown}, ${group.rule}`).join("; ")}` }, parts, marks));
  }
}

// From where a rule accepts more often than not; null: nowhere, or everybody.
function threshold(group) {
  const bands = group.bands, at = bands.findIndex(([, , chance]) => chance >= 0.5);
  return at <= 0 ? null : bands[at][0];
}

export default {
  render({ model, el }) {
    const root = h("div", { class: "logofair-studio" });
    el.replaceChildren(root);
    const page = new Studio(model.answer ? model : overWidget(model), root);
    page.start();
    return () => { root.remove(); };
  },
};
