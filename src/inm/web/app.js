// The page: session, views, live updates, the past.
"use strict";

const $ = (id) => document.getElementById(id);
const TABS = [["physical", "Physical map"], ["logical", "Logical map"], ["alarms", "Alarms"], ["devices", "Devices"], ["load", "Load"],
  ["log", "Log"], ["plans", "Plans"], ["inventory", "Inventory"], ["users", "Users", "administrator"]];
const ROLES = ["none", "viewer", "operator", "administrator"];

const app = {
  session: null, state: null, shown: null, view: "", stream: null, loading: false, again: false, chip: "", past: 0,

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
    } catch (e) { this.hint(e.message); if (!$("list").hidden) $("list").prepend(el("p", { class: "bad", role: "alert" }, e.message)); throw e; }
  },
  hint(text) { $("hint").textContent = text; },

  // ---- theme: of the system, unless a person chose one ---------------------------------------

  theme(next) {
    const order = ["system", "light", "dark"], system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    let chosen = localStorage.getItem("inm-theme") || "system";
    if (next) { chosen = order[(order.indexOf(chosen) + 1) % 3]; localStorage.setItem("inm-theme", chosen); }
    document.documentElement.dataset.theme = chosen === "system" ? system : chosen;
    $("theme").textContent = `Theme: ${chosen}`;
    if (this.map) { this.map.readColors(); this.legend(); }
  },

  // ---- session -------------------------------------------------------------------------------

  async start() {
    this.map = new NetworkMap($("canvas"), (chip) => this.pick(chip), (chip, x, y) => this.tip(chip, x, y));
    this.theme();
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
    $("edit").hidden = !this.may("operator");
    this.legend();
    const [layout, topology] = await Promise.all([this.get("layout"), this.get("topology")]);
    this.map.moved = layout.cabinets || {};
    this.map.setTopology(topology);
    this.go(location.hash.slice(1) || "physical");
    await this.update();
    this.close();
    this.listen();
  },

  legend() {
    $("legend").replaceChildren(...WORST.map((k) => {
      const dot = el("i"); dot.style.background = this.map.colors[k];
      return el("span", {}, dot, COLOR_NAMES[k]);
    }), ...[0, 0.5, 1].map((part) => { const dot = el("i"); dot.style.background = this.map.loadColor(part); return el("span", {}, dot, `load ${part * 100} %`); }),
    ...["NRC: network router chip, with 24 ports. NIC: network interface chip of a host.",
      "r12: rack 12; f3: its frame 3; n5: NRC 5 of the frame's switch; h31: the NIC of host 31. Example: r12f3n5.",
      "l5: leaf cabinet 5; s2: set 2; b13: leaf switch 13. t3: root (top) cabinet 3; b17: root switch 17; n4: its NRC 4. :7 is port 7.",
      "Hosts are wired to bottom edge NRCs, these to bottom spines, leaf switches, root edges and root spines.",
      "Report: a message that a chip sends by itself. Load: part of a link's capacity, 112 Gb/s each way, that carries data.",
      "Keys on the map: arrows move, + and - zoom, 0 shows all, Enter opens the next chip that is not good, Escape goes back."].map((t) => el("p", {}, t)));
  },

  // ---- live ----------------------------------------------------------------------------------

  listen() {
    const live = (on) => { $("live").classList.toggle("on", on); $("live-text").textContent = on ? "live" : "offline"; };
    this.stream = new EventSource("api/v1/stream");
    this.stream.onopen = () => live(true);
    this.stream.onerror = () => live(false);
    this.stream.onmessage = () => this.update();
  },

  // However fast news come: one request for the state at a time.
  async update() {
    if (this.loading) { this.again = true; return; }
    this.loading = true;
    try {
      const wanted = ["state", "summary", "past"];
      if (this.view === "logical" || this.map.colour === "load") wanted.push("load/links");
      const [state, summary, past, load] = await Promise.all(wanted.map((w) => this.get(w)));
      this.state = state; this.range = past;
      this.counts(summary);
      if (!this.past) { this.present(state, load ? load.use : ""); }
      if (["alarms", "devices"].includes(this.view)) await views[this.view](this.root);
      if (["log", "load"].includes(this.view) && Date.now() - (this.listed || 0) > 4000 && !$("list").contains(document.activeElement)) { this.listed = Date.now(); await views[this.view](this.root); }
    } catch (e) { this.hint(e.message); }
    this.loading = false;
    if (this.again) { this.again = false; setTimeout(() => this.update(), 50); }
  },

  present(state, use) {
    this.shown = state;
    this.map.setState(state);
    if (use) this.map.setUse(use);
    if (!this.chip && !$("side").contains(document.activeElement)) showAlarms($("side"));
  },

  counts(s) {
    $("server-name").textContent = `Network ${s.topology}, server ${s.server}`;
    const part = (name, value, kind, title) => el("span", { class: value !== 0 && kind || "", id: `count-${name.replace(/ /g, "-")}`, title },
      `${name} `, el("b", {}, typeof value === "number" ? value.toLocaleString("en") : value));
    const of = (n, all) => `${n.toLocaleString("en")} of ${all.toLocaleString("en")}`;
    $("counts").replaceChildren(
      s.network === "ok" ? part("network", "ok") : part("network", s.network, "critical"),
      part("routers (NRC)", of(s.found.nrc, s.expected_nrc), "", "network router chips, found of expected"),
      part("interfaces (NIC)", of(s.found.nic, s.expected_nic), "", "network interface chips of the hosts, found of expected"),
      part("links", of(s.found.links, s.expected_links), "", "cables and links on boards, found of expected"),
      part("critical", s.critical, "critical"), part("major", s.major, "major"), part("warnings", s.warning, "warning"),
      part("reports", s.reports, "", "messages that chips sent by themselves"), part("last discovery", `${(s.found.real_seconds * 1000).toFixed(0)} ms`, "", "time to find all chips and links"));
  },

  // ---- the past ------------------------------------------------------------------------------

  async travel(part) {
    if (part >= 1 || !this.range || !this.range.first) { this.backToNow(); return; }
    const wanted = this.range.first + (this.range.last - this.range.first) * part;
    $("time-text").textContent = time(wanted);
    this.past = wanted;
    const state = await this.get(`past?time=${wanted}`);
    if (this.past !== wanted) return; // the slider has moved on
    document.body.classList.add("past"); $("now").hidden = false;
    $("time-text").textContent = time(state.time);
    this.present(state, state.use);
  },

  backToNow() {
    this.past = 0;
    document.body.classList.remove("past"); $("now").hidden = true;
    $("time").value = 1000; $("time-text").textContent = "now";
    this.update();
  },

  // ---- views ---------------------------------------------------------------------------------

  go(view) {
    if (!TABS.some((t) => t[0] === view && (!t[2] || this.may(t[2])))) view = "physical";
    const isMap = view === "physical" || view === "logical";
    this.view = view;
    history.replaceState(null, "", `#${view}`);
    for (const b of $("tabs").children) b.id === `tab-${view}` ? b.setAttribute("aria-current", "page") : b.removeAttribute("aria-current");
    $(`tab-${view}`).scrollIntoView({ block: "nearest", inline: "nearest" }); // on a phone the tabs are wider than the screen
    $("map").hidden = !isMap; $("list").hidden = isMap;
    $("edit").disabled = view !== "physical";
    if (isMap) { this.map.setKind(view); requestAnimationFrame(() => this.map.relayout()); if (this.state) this.update(); }
    else { // a view that is late draws into a root that nobody sees any more
      const root = this.root = el("div");
      $("list").replaceChildren(root);
      views[view](root).catch((e) => root.replaceChildren(el("p", { class: "bad" }, e.message)));
    }
  },

  pick(chip) {
    if (chip < 0) { this.close(); return; }
    this.open(this.map.name(chip), true);
  },

  // To the place of an alarm; places that are not chips show their first chip.
  goTo(alarm) {
    if (alarm.chip >= 0) this.open(this.map.name(alarm.chip));
  },

  open(name, here) {
    const chip = this.map.find(name);
    if (chip < 0) { this.hint(`no chip ${name}`); return; }
    this.chip = name;
    if (!here) {
      if (this.view !== "physical" && this.view !== "logical") this.go("physical");
      requestAnimationFrame(() => requestAnimationFrame(() => this.map.show(chip, true)));
    } else this.map.show(chip, false);
    showChip($("side"), name).catch((e) => { if (this.chip === name) $("side").append(el("p", { class: "bad" }, e.message)); });
  },

  close() { this.chip = ""; this.map.show(-1); showAlarms($("side")); },

  tip(chip, x, y) {
    $("tip").hidden = chip < 0;
    if (chip < 0) return;
    const name = this.map.name(chip), alarms = (this.shown ? this.shown.alarms : []).filter((a) => a.place.split(" ").some((p) => p.split(":")[0] === name));
    const load = this.map.chipLoad(chip), kind = chip < this.map.topology.nrc ? "router (NRC)" : "interface (NIC)";
    $("tip").replaceChildren(el("b", {}, name), ` ${kind}, ${LEVELS[this.map.topology.level[chip]]}, ${COLOR_NAMES[this.map.state[chip]]}${load >= 0 ? `, load ${Math.round(load * 100)} %` : ""}`,
      ...alarms.slice(0, 3).map((a) => el("div", { class: "bad" }, a.text)));
    $("tip").style.left = `${Math.max(4, Math.min(x + 14, $("canvas").clientWidth - 300))}px`;
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

  resetLayout() { this.map.moved = {}; this.map.relayout(); },

  async search(text) {
    if (this.map.find(text) >= 0) { this.open(text); return; }
    const found = (await this.get(`search?q=${encodeURIComponent(text)}`)).chips;
    $("search-list").replaceChildren(...found.map((name) => el("option", { value: name })));
  },
};

$("login-form").addEventListener("submit", (e) => { e.preventDefault(); app.login(); });
$("logout").addEventListener("click", () => app.post("logout").catch(() => 0).then(() => app.leave()));
$("theme").addEventListener("click", () => app.theme(true));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => app.theme());
$("fit").addEventListener("click", () => app.map.relayout());
$("zoom-in").addEventListener("click", () => app.map.zoom(1.4, app.map.canvas.clientWidth / 2, app.map.canvas.clientHeight / 2));
$("zoom-out").addEventListener("click", () => app.map.zoom(0.7, app.map.canvas.clientWidth / 2, app.map.canvas.clientHeight / 2));
$("colour").addEventListener("change", (e) => { app.map.colour = e.target.value; app.map.redraw(); app.update(); });
$("edit").addEventListener("click", () => app.edit().catch(() => 0));
$("reset-layout").addEventListener("click", () => app.resetLayout());
$("time").addEventListener("input", (e) => app.travel(e.target.value / 1000).catch((x) => app.hint(x.message)));
$("now").addEventListener("click", () => app.backToNow());
$("search").addEventListener("input", (e) => { if (e.target.value.length > 1) app.search(e.target.value).catch(() => 0); });
app.start();
