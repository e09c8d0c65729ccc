// The page: session, views, live updates.
"use strict";

const $ = (id) => document.getElementById(id);
const TABS = [["physical", "Physical"], ["logical", "Logical"], ["alarms", "Alarms"], ["devices", "Devices"],
  ["traffic", "Traffic"], ["log", "Log"], ["users", "Users", "administrator"]];
const ROLES = ["none", "viewer", "operator", "administrator"];

const app = {
  session: null, state: null, view: "", stream: null, loading: false, again: false, chip: "",

  may(role) { return ROLES.indexOf(this.session.role) >= ROLES.indexOf(role); },

  async call(path, options) {
    const response = await fetch(`api/v1/${path}`, options);
    const reply = await response.json().catch(() => ({}));
    if (response.status === 401 && this.session) { this.leave(); }
    if (!response.ok) throw new Error(reply.error || `the server answered ${response.status}`);
    return reply;
  },
  get(path) { return this.call(path); },
  async post(path, body) {
    try {
      const reply = await this.call(path, { method: "POST", body: JSON.stringify(body || {}),
        headers: { "Content-Type": "application/json", "X-CSRF-Token": this.session ? this.session.csrf : "" } });
      this.hint("");
      return reply;
    } catch (e) { this.hint(e.message); throw e; }
  },
  hint(text) { $("hint").textContent = text; },

  // ---- session -------------------------------------------------------------------------------

  async start() {
    this.map = new NetworkMap($("canvas"), (chip) => this.pick(chip), (chip, x, y) => this.tip(chip, x, y));
    try { this.enter(await this.get("session")); } catch { this.leave(); }
  },

  leave() {
    this.session = null;
    if (this.stream) this.stream.close();
    this.stream = null;
    $("app").hidden = true; $("login").hidden = false; $("login-name").focus();
  },

  async login() {
    $("login-error").textContent = "";
    try {
      this.session = null;
      const session = await this.call("login", { method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ name: $("login-name").value, password: $("login-password").value }) });
      $("login-password").value = "";
      await this.enter(session);
    } catch (e) { $("login-error").textContent = e.message; }
  },

  async enter(session) {
    this.session = session;
    $("login").hidden = true; $("app").hidden = false;
    $("user").textContent = `${session.user} (${session.role})`;
    $("tabs").replaceChildren(...TABS.filter((t) => !t[2] || this.may(t[2])).map(([name, text]) =>
      el("button", { type: "button", id: `tab-${name}`, onclick: () => this.go(name) }, text)));
    $("legend").replaceChildren(...WORST.map((k) => {
      const dot = el("i", {}); dot.style.background = COLORS[k];
      return el("span", {}, dot, COLOR_NAMES[k]);
    }));
    $("edit").hidden = !this.may("operator");
    const layout = await this.get("layout");
    this.map.moved = layout.cabinets || {};
    this.map.setTopology(await this.get("topology"));
    await this.update();
    this.go(location.hash.slice(1) || "physical");
    this.listen();
  },

  // ---- live ----------------------------------------------------------------------------------

  listen() {
    this.stream = new EventSource("api/v1/stream");
    this.stream.onopen = () => $("live").classList.add("on");
    this.stream.onerror = () => $("live").classList.remove("on");
    this.stream.onmessage = () => this.update();
  },

  // However fast news come: one request for the state at a time.
  async update() {
    if (this.loading) { this.again = true; return; }
    this.loading = true;
    try {
      const [state, summary] = await Promise.all([this.get("state"), this.get("summary")]);
      this.state = state;
      this.map.setState(state);
      this.counts(summary);
      if (["alarms", "devices"].includes(this.view)) await views[this.view]($("list"));
      if (this.view === "log" && Date.now() - (this.logged || 0) > 1000) { this.logged = Date.now(); await views.log($("list")); }
    } catch (e) { this.hint(e.message); }
    this.loading = false;
    if (this.again) { this.again = false; setTimeout(() => this.update(), 50); }
  },

  counts(s) {
    $("server-name").textContent = s.server;
    const part = (name, value, kind) => el("span", { class: value !== 0 && kind || "", id: `count-${name.replace(/ /g, "-")}` },
      `${name} `, el("b", {}, typeof value === "number" ? value.toLocaleString("en") : value));
    $("counts").replaceChildren(part("NRCs", `${s.found.nrc.toLocaleString("en")} of ${s.expected_nrc.toLocaleString("en")}`),
      part("NICs", `${s.found.nic.toLocaleString("en")} of ${s.expected_nic.toLocaleString("en")}`),
      part("links", `${s.found.links.toLocaleString("en")} of ${s.expected_links.toLocaleString("en")}`),
      part("critical", s.critical, "critical"), part("major", s.major, "major"), part("warnings", s.warning, "warning"),
      part("reports", s.reports), part("found in", `${(s.found.real_seconds * 1000).toFixed(0)} ms`));
  },

  // ---- views ---------------------------------------------------------------------------------

  go(view) {
    if (!TABS.some((t) => t[0] === view && (!t[2] || this.may(t[2])))) view = "physical";
    const isMap = view === "physical" || view === "logical";
    this.view = view;
    history.replaceState(null, "", `#${view}`);
    for (const b of $("tabs").children) b.classList.toggle("on", b.id === `tab-${view}`);
    $("map").hidden = !isMap; $("list").hidden = isMap;
    $("edit").disabled = view !== "physical";
    if (isMap) { this.map.setKind(view); requestAnimationFrame(() => this.map.fit()); }
    else { $("list").replaceChildren(); views[view]($("list")).catch((e) => $("list").replaceChildren(el("p", { class: "bad" }, e.message))); }
  },

  pick(chip) {
    if (chip < 0) { this.close(); return; }
    this.open(this.map.name(chip), true);
  },

  open(name, here) {
    const chip = this.map.find(name);
    if (chip < 0) { this.hint(`no chip ${name}`); return; }
    this.chip = name;
    if (!here) {
      if (this.view !== "physical" && this.view !== "logical") this.go("physical");
      requestAnimationFrame(() => requestAnimationFrame(() => this.map.show(chip, true)));
    } else this.map.show(chip, false);
    $("side").hidden = false;
    showChip($("side"), name).catch((e) => $("side").replaceChildren(el("p", { class: "bad" }, e.message)));
  },

  close() { $("side").hidden = true; this.chip = ""; this.map.show(-1); },

  tip(chip, x, y) {
    $("tip").hidden = chip < 0;
    if (chip < 0) return;
    const name = this.map.name(chip), alarms = (this.state ? this.state.alarms : []).filter((a) => a.place.split(" ").some((p) => p.split(":")[0] === name));
    $("tip").replaceChildren(el("b", {}, name), ` ${LEVELS[this.map.topology.level[chip]]}, ${COLOR_NAMES[this.map.state[chip]]}`,
      ...alarms.slice(0, 3).map((a) => el("div", { class: "bad" }, a.text)));
    $("tip").style.left = `${Math.min(x + 14, $("canvas").clientWidth - 300)}px`;
    $("tip").style.top = `${$("canvas").offsetTop + y + 14}px`;
  },

  async edit() {
    this.map.editing = !this.map.editing;
    $("edit").textContent = this.map.editing ? "Keep layout" : "Edit layout";
    $("edit").classList.toggle("on", this.map.editing);
    $("reset-layout").hidden = !this.map.editing;
    this.map.redraw();
    if (!this.map.editing) { await this.post("layout", { cabinets: this.map.moved }); this.hint("layout kept"); }
    else this.hint("drag cabinets to their places");
  },

  resetLayout() {
    this.map.moved = {};
    this.map.layouts.physical = this.map.physical();
    this.map.setKind("physical");
  },

  async search(text) {
    if (this.map.find(text) >= 0) { this.open(text); return; }
    const found = (await this.get(`search?q=${encodeURIComponent(text)}`)).chips;
    $("search-list").replaceChildren(...found.map((name) => el("option", { value: name })));
  },
};

$("login").addEventListener("submit", (e) => { e.preventDefault(); app.login(); });
$("logout").addEventListener("click", () => app.post("logout").catch(() => 0).then(() => app.leave()));
$("fit").addEventListener("click", () => app.map.fit());
$("edit").addEventListener("click", () => app.edit().catch(() => 0));
$("reset-layout").addEventListener("click", () => app.resetLayout());
$("search").addEventListener("input", (e) => { if (e.target.value.length > 1) app.search(e.target.value).catch(() => 0); });
app.start();
