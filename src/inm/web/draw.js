// The map: all chips as rectangles on a canvas, physical or logical, with level of detail.
"use strict";

const COLORS = { ".": "#2f9e6e", w: "#e0b43c", h: "#ef7d33", m: "#c65bd8", x: "#ef4352" };
const COLOR_NAMES = { ".": "good", w: "link alarm", h: "hot", m: "no answer", x: "dead" };
const WORST = [".", "w", "h", "m", "x"];
const LEVELS = ["hosts", "bottom edge", "bottom spine", "leaf", "root edge", "root spine"];

class NetworkMap {
  constructor(canvas, onPick, onTip) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.onPick = onPick;
    this.onTip = onTip;
    this.kind = "physical";
    this.moved = {};       // cabinet: [x, y], edited by people
    this.editing = false;
    this.selected = -1;
    this.scale = 1; this.left = 0; this.top = 0;
    this.drawMs = 0;
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(canvas);
  }

  // ---- what there is -------------------------------------------------------------------------

  setTopology(t) {
    this.topology = t;
    this.chips = t.level.length;
    this.state = ".".repeat(this.chips);
    this.down = [];
    this.links = new Map();
    for (let i = 0; i < t.links.length; i += 2) {
      for (const [a, b] of [[t.links[i], t.links[i + 1]], [t.links[i + 1], t.links[i]]]) {
        const chip = this.chipOf(a);
        if (!this.links.has(chip)) this.links.set(chip, []);
        this.links.get(chip).push(a, b);
      }
    }
    this.layouts = { physical: this.physical(), logical: this.logical() };
    this.setKind(this.kind);
  }

  chipOf(port) {
    const nrc = this.topology.nrc * 24;
    return port < nrc ? Math.floor(port / 24) : this.topology.nrc + port - nrc;
  }

  setState(state) {
    this.state = state.chips;
    this.down = state.down;
    this.redraw();
  }

  setKind(kind) {
    this.kind = kind;
    if (this.layouts) { this.layout = this.layouts[kind]; this.fit(); }
  }

  // ---- places --------------------------------------------------------------------------------

  newLayout(blocks) {
    return { x: new Float32Array(this.chips), y: new Float32Array(this.chips), size: 1,
      block: new Int32Array(this.chips), blocks, names: [], rows: [] };
  }

  // Cabinets in rows: racks, then leaf cabinets, then root cabinets. A block is a cabinet.
  physical() {
    const t = this.topology, l = this.newLayout([]);
    const kind = { r: 0, l: 0, t: 0 };
    const side = Math.max(8, Math.ceil(Math.sqrt(t.racks * 4)));
    for (let i = 0; i < this.chips; i++) {
      const c = t.cabinet[i];
      l.block[i] = c;
      if (!l.blocks[c]) {
        const k = !t.tree ? "r" : t.level[i] <= 2 ? "r" : t.level[i] === 3 ? "l" : "t";
        l.blocks[c] = { kind: k, name: k + t.number[i], w: k === "r" ? 20 : k === "l" ? 20 : 15,
          h: k === "r" ? 20 : k === "l" ? 5 : 24 };
      }
    }
    let x = 0, y = 0, high = 0, column = 0, last = "";
    for (const k of ["r", "l", "t"]) {
      for (const b of l.blocks) {
        if (!b || b.kind !== k) continue;
        const next = last === "r" && k !== "r"; // leaf and root cabinets begin a row
        if (last && (column === side || next)) {
          y += high + (next ? 12 : 5); x = 0; column = 0; high = 0;
        }
        b.x = x; b.y = y; x += b.w + 4; high = Math.max(high, b.h); column++; last = k;
        kind[k]++;
      }
    }
    l.blocks.forEach((b, c) => { if (this.moved[c]) [b.x, b.y] = this.moved[c]; });
    this.placeChips(l);
    return l;
  }

  placeChips(l) {
    const t = this.topology;
    for (let i = 0; i < this.chips; i++) {
      const b = l.blocks[l.block[i]];
      let x, y;
      if (!t.tree) { x = 8; y = 8; }
      else if (t.level[i] === 0) { x = 1 + (t.slot[i] % 16); y = 5 * t.frame[i] + 3 + Math.floor(t.slot[i] / 16); }
      else if (t.level[i] <= 2) { x = 1 + t.slot[i] * 2; y = 5 * t.frame[i] + 1; }
      else if (t.level[i] === 3) { x = t.index[i]; y = 1 + t.frame[i] * 1.3; }
      else { x = 1 + (t.index[i] % 2) * 7 + t.slot[i]; y = 1 + Math.floor(t.index[i] / 2) * 1.5; }
      l.x[i] = b.x + x; l.y[i] = b.y + y;
    }
  }

  // Levels of the tree, the roots above. A block is a part of a level.
  logical() {
    const t = this.topology, l = this.newLayout([]), per = [[], [], [], [], [], []];
    for (let i = 0; i < this.chips; i++) per[t.level[i]].push(i);
    const width = Math.max(200, Math.ceil(Math.sqrt(this.chips) * 3.2));
    let y = 0;
    for (let level = 5; level >= 0; level--) {
      const chips = per[level];
      if (!chips.length) continue;
      const columns = Math.min(width, chips.length), step = width / columns;
      const rows = Math.ceil(chips.length / columns);
      l.rows.push({ name: `${LEVELS[level]}: ${chips.length}`, y });
      y += 14;
      const blocks = 64;
      chips.forEach((chip, n) => {
        const block = Math.floor(n / rows / columns * blocks);
        const key = (5 - level) * blocks + block;
        l.x[chip] = Math.floor(n / rows) * step + (step - 1) / 2; l.y[chip] = y + (n % rows) * 1.3;
        l.block[chip] = key;
        if (!l.blocks[key]) l.blocks[key] = { x: l.x[chip], y, w: 0, h: rows * 1.3, plain: true };
        l.blocks[key].w = l.x[chip] + 1 - l.blocks[key].x;
      });
      y += rows * 1.3 + 16;
    }
    return l;
  }

  // ---- drawing -------------------------------------------------------------------------------

  fit() {
    const l = this.layout;
    if (!l) return;
    let x1 = 1e9, y1 = 1e9, x2 = -1e9, y2 = -1e9;
    for (const b of l.blocks) {
      if (!b) continue;
      x1 = Math.min(x1, b.x); y1 = Math.min(y1, b.y - 8); x2 = Math.max(x2, b.x + b.w); y2 = Math.max(y2, b.y + b.h);
    }
    const w = this.canvas.clientWidth || 800, h = this.canvas.clientHeight || 500;
    this.scale = Math.min((w - 40) / (x2 - x1), (h - 30) / (y2 - y1));
    this.left = (w - (x2 - x1) * this.scale) / 2 - x1 * this.scale;
    this.top = (h - (y2 - y1) * this.scale) / 2 - y1 * this.scale;
    this.redraw();
  }

  redraw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.draw(); });
  }

  draw() {
    const canvas = this.canvas, c = this.context, ratio = window.devicePixelRatio || 1;
    const w = canvas.clientWidth, h = canvas.clientHeight, begin = performance.now();
    if (!this.layout || !w || !h) return;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio);
    }
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = "#10151c"; c.fillRect(0, 0, w, h);
    this.drawBlocks(c, w, h);
    this.drawLinks(c);
    this.drawChips(c, w, h);
    this.drawSelected(c);
    this.drawRows(c);
    this.drawMs = performance.now() - begin;
  }

  drawBlocks(c, w, h) {
    const s = this.scale;
    c.textBaseline = "bottom";
    this.layout.blocks.forEach((b) => {
      if (!b || b.plain) return;
      const x = b.x * s + this.left, y = b.y * s + this.top;
      if (x > w || y > h || x + b.w * s < 0 || y + b.h * s < 0) return;
      c.fillStyle = this.editing ? "#233447" : "#1b2530";
      c.fillRect(x, y, b.w * s, b.h * s);
      if (b.w * s > 26) {
        c.fillStyle = "#93a2b3"; c.font = `${Math.min(13, Math.max(9, s * 3))}px sans-serif`;
        c.fillText(b.name, x, y);
      }
    });
  }

  // Too small to see, chips become one area of their block, coloured by the worst of them.
  drawChips(c, w, h) {
    const l = this.layout, s = this.scale, size = Math.max(1, s * 0.86), worst = new Map();
    if (s < 0.45) {
      for (let i = 0; i < this.chips; i++) {
        const k = WORST.indexOf(this.state[i]);
        if (k > (worst.get(l.block[i]) ?? -1)) worst.set(l.block[i], k);
      }
      for (const [block, k] of worst) {
        const b = l.blocks[block];
        c.fillStyle = COLORS[WORST[k]];
        c.fillRect(b.x * s + this.left, b.y * s + this.top, Math.max(2, b.w * s - 1), Math.max(2, b.h * s - 1));
      }
      return;
    }
    for (const letter of WORST) {
      c.fillStyle = COLORS[letter];
      const bad = letter !== ".", plus = bad ? Math.max(0, 4 - size) : 0; // what is bad is seen
      for (let i = 0; i < this.chips; i++) {
        if (this.state[i] !== letter) continue;
        const x = l.x[i] * s + this.left, y = l.y[i] * s + this.top;
        if (x > w || y > h || x < -size || y < -size) continue;
        c.fillRect(x - plus / 2, y - plus / 2, size + plus, size + plus);
      }
    }
    if (s > 22) this.drawNames(c, w, h);
  }

  drawNames(c, w, h) {
    const l = this.layout, s = this.scale;
    c.fillStyle = "#0b0f14"; c.font = `${Math.min(14, s / 4)}px sans-serif`; c.textBaseline = "middle";
    for (let i = 0; i < this.chips; i++) {
      const x = l.x[i] * s + this.left, y = l.y[i] * s + this.top;
      if (x > w || y > h || x < -s || y < -s) continue;
      c.fillText(this.name(i), x + 3, y + s * 0.43, s * 0.8);
    }
  }

  drawRows(c) {
    c.fillStyle = "#93a2b3"; c.font = "13px sans-serif"; c.textBaseline = "top";
    for (const r of this.layout.rows) {
      c.fillText(r.name, Math.max(8, this.left), (r.y + 12) * this.scale + this.top - 17);
    }
  }

  line(c, a, b) {
    const l = this.layout, s = this.scale, half = s * 0.43, from = this.chipOf(a), to = this.chipOf(b);
    c.moveTo(l.x[from] * s + this.left + half, l.y[from] * s + this.top + half);
    c.lineTo(l.x[to] * s + this.left + half, l.y[to] * s + this.top + half);
  }

  drawLinks(c) {
    const many = this.down.length > 40;
    c.lineWidth = many ? 0.7 : 1.5; c.strokeStyle = many ? "#ef435280" : "#ef4352"; c.beginPath();
    for (let i = 0; i < this.down.length; i += 2) this.line(c, this.down[i], this.down[i + 1]);
    c.stroke();
    if (this.selected < 0) return;
    const ports = this.links.get(this.selected) || [];
    c.lineWidth = 1; c.strokeStyle = "#5aa9ef"; c.beginPath();
    for (let i = 0; i < ports.length; i += 2) this.line(c, ports[i], ports[i + 1]);
    c.stroke();
  }

  drawSelected(c) {
    if (this.selected < 0) return;
    const l = this.layout, s = this.scale;
    c.lineWidth = 2; c.strokeStyle = "#ffffff";
    c.strokeRect(l.x[this.selected] * s + this.left - 3, l.y[this.selected] * s + this.top - 3,
      Math.max(8, s), Math.max(8, s));
  }

  // ---- names and hands -----------------------------------------------------------------------

  name(i) {
    const t = this.topology;
    if (!t.tree) return i < t.nrc ? `nrc${i}` : `nic${i - t.nrc}`;
    if (t.level[i] === 0) return `r${t.number[i]}f${t.frame[i]}h${t.slot[i]}`;
    if (t.level[i] <= 2) return `r${t.number[i]}f${t.frame[i]}n${t.slot[i]}`;
    if (t.level[i] === 3) return `l${t.number[i]}s${t.frame[i]}b${t.index[i]}`;
    return `t${t.number[i]}b${t.index[i]}n${t.slot[i]}`;
  }

  find(name) {
    for (let i = 0; i < this.chips; i++) if (this.name(i) === name) return i;
    return -1;
  }

  show(chip, zoom) {
    this.selected = chip;
    if (chip >= 0 && zoom) {
      this.scale = Math.max(this.scale, 8);
      this.left = this.canvas.clientWidth / 2 - this.layout.x[chip] * this.scale;
      this.top = this.canvas.clientHeight / 2 - this.layout.y[chip] * this.scale;
    }
    this.redraw();
  }

  chipAt(px, py) {
    const l = this.layout, x = (px - this.left) / this.scale, y = (py - this.top) / this.scale;
    const near = Math.max(1, 5 / this.scale);
    let best = -1, distance = near * near;
    for (let i = 0; i < this.chips; i++) {
      const dx = l.x[i] + 0.43 - x, dy = l.y[i] + 0.43 - y, d = dx * dx + dy * dy;
      if (d < distance) { distance = d; best = i; }
    }
    return best;
  }

  cabinetAt(px, py) {
    const x = (px - this.left) / this.scale, y = (py - this.top) / this.scale;
    return this.layout.blocks.findIndex((b) => b && !b.plain && x >= b.x && y >= b.y && x < b.x + b.w && y < b.y + b.h);
  }

  zoom(factor, px, py) {
    const scale = Math.min(80, Math.max(0.1, this.scale * factor));
    this.left = px - (px - this.left) * scale / this.scale;
    this.top = py - (py - this.top) * scale / this.scale;
    this.scale = scale;
    this.redraw();
  }

  listen() {
    const canvas = this.canvas;
    let hold = null;
    canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      this.zoom(Math.exp(-e.deltaY * 0.0015), e.offsetX, e.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (e) => {
      const cabinet = this.editing && this.kind === "physical" ? this.cabinetAt(e.offsetX, e.offsetY) : -1;
      hold = { x: e.offsetX, y: e.offsetY, moved: false, cabinet };
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (!hold) { this.onTip(this.layout ? this.chipAt(e.offsetX, e.offsetY) : -1, e.offsetX, e.offsetY); return; }
      const dx = e.offsetX - hold.x, dy = e.offsetY - hold.y;
      if (!hold.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
      hold.moved = true; hold.x = e.offsetX; hold.y = e.offsetY;
      if (hold.cabinet >= 0) {
        const b = this.layout.blocks[hold.cabinet];
        b.x += dx / this.scale; b.y += dy / this.scale;
        this.moved[hold.cabinet] = [b.x, b.y];
        this.placeChips(this.layout);
      } else { this.left += dx; this.top += dy; }
      this.redraw();
    });
    canvas.addEventListener("pointerup", (e) => {
      if (hold && !hold.moved) this.onPick(this.chipAt(e.offsetX, e.offsetY));
      hold = null;
    });
    canvas.addEventListener("pointerleave", () => this.onTip(-1, 0, 0));
    canvas.addEventListener("keydown", (e) => {
      const step = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[e.key];
      if (step) { this.left += step[0]; this.top += step[1]; this.redraw(); e.preventDefault(); }
      if (e.key === "+" || e.key === "-") this.zoom(e.key === "+" ? 1.3 : 0.77, canvas.clientWidth / 2, canvas.clientHeight / 2);
    });
  }
}
