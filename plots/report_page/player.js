// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
// The decode player: two recorded decodes of one request side by side, forward by forward.
// Forward 0 is the canvas before anything ran; after forward t everything it decided is shown.
"use strict";
(async () => {
  const source = document.getElementById("traces");
  if (!source) return;
  const plain = source.type === "application/json";
  const data = JSON.parse(plain ? source.textContent : await window.unpacked(source));
  const $ = (id) => document.getElementById(id);
  const svg = (name, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const size = (ranges) => ranges.reduce((n, [first, last]) => n + last - first, 0);
  const inside = (ranges, p) => ranges.some(([first, last]) => first <= p && p < last);
  const tone = (confidence) =>
    `var(--c${confidence >= 0.95 ? 4 : confidence >= 0.8 ? 3 : confidence >= 0.5 ? 2 : confidence >= 0.25 ? 1 : 0})`;
  const shown = (text) => text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ +$/, "␣").replace(/^ /, "");
  const special = (text) => /^<\|.*\|>$/.test(text);

  // Everything a side shows, computed once: totals after t forwards, and what happened to each position: a token,
  // another one in its place, or the mask again.
  function prepare(decode, texts, stops) {
    const begin = decode.prompt.length;
    const text = (token) => texts[token] ?? `<${token}>`;
    const totals = [{ rows: 0, decodeRows: 0, decided: 0, dropped: 0 }];
    const at = new Map();
    decode.steps.forEach((step, t) => {
      const last = totals[t];
      totals.push({
        rows: last.rows + size(step.rows),
        // A prompt's own forwards are no part of redundancy, as in the rows.
        decodeRows: last.decodeRows + (step.phase === "prefill" ? 0 : size(step.rows)),
        dropped: last.dropped + size(step.dropped),
        decided: last.decided + step.accepted.length - (step.reopened ?? []).length,
      });
      const note = (p, fate) => at.set(p, [...(at.get(p) ?? []), { forward: t + 1, ...fate }]);
      for (const c of [...step.accepted, ...(step.replaced ?? [])]) {
        note(step.position[c], { token: step.token[c], text: text(step.token[c]), confidence: step.confidence[c] });
      }
      for (const c of step.reopened ?? []) note(step.position[c], { token: null });
    });
    // Positions right of everything that was computed never took part: a canvas laid out in advance.
    let end = begin;
    for (const step of decode.steps) for (const [, last] of step.rows) end = Math.max(end, last);
    let stop = Infinity;
    for (const [p, fates] of at) if (stops.includes(fates.at(-1).token)) stop = Math.min(stop, p);
    const label = (token) => (stops.includes(token) ? "■" : null);
    return { ...decode, begin, end, stop, totals, at, text, label };
  }

  class Side {
    constructor(root) {
      this.root = root;
      this.canvas = root.querySelector(".canvas");
      this.chart = root.querySelector(".chart");
      this.strip = root.querySelector(".strip");
      this.out = (name) => root.querySelector(`[data-count="${name}"]`);
      this.chart.addEventListener("click", (event) => {
        const box = this.chart.getBoundingClientRect();
        const t = Math.ceil(((event.clientX - box.left) / box.width) * this.decode.steps.length);
        jump(player.by === "rows" ? tickOfRows(this.decode.totals[t].rows) : t);
      });
    }
    load(decode) {
      this.decode = decode;
      this.canvas.replaceChildren();
      this.cells = [];
      for (let p = decode.begin; p < decode.end; ++p) {
        const cell = document.createElement("span");
        cell.className = "cell";
        cell.dataset.p = p - decode.begin;
        this.cells.push(cell);
        this.canvas.append(cell);
      }
      this.drawChart();
      this.root.querySelector(".prompt").textContent = decode.prompt.map(decode.text).join("");
      this.root.querySelector(".prompt-length").textContent = decode.begin;
    }
    // The whole sequence, prompt first: rows computed above, keys that they see below.
    drawStrip(step) {
      const { length, begin } = this.decode;
      this.strip.replaceChildren();
      this.strip.setAttribute("viewBox", `0 0 ${length} 12`);
      const band = (name, ranges, y) => {
        for (const [first, last] of ranges) {
          this.strip.append(svg("rect", { class: name, x: first, width: last - first, y, height: 5 }));
        }
      };
      band("none", [[0, length]], 0);
      band("none", [[0, length]], 7);
      if (step) {
        band("rows", step.rows, 0);
        band("gone", step.dropped, 0);
        band("keys", step.visible ?? [], 7);
      }
      this.strip.append(svg("rect", { class: "edge", x: begin, width: length / 300, y: 0, height: 12 }));
    }
    drawChart() {
      const { steps } = this.decode, n = steps.length, width = 400, high = 64, base = 40;
      const most = Math.max(1, ...steps.map((s) => size(s.rows)));
      const best = Math.max(1, ...steps.map((s) => s.accepted.length));
      this.chart.replaceChildren();
      this.chart.setAttribute("viewBox", `0 0 ${width} ${high}`);
      this.bars = steps.map((step, t) => {
        const x = (t / n) * width, w = Math.max(0.6, (width / n) * 0.86);
        const group = svg("g", {});
        const rows = (size(step.rows) / most) * base, dropped = (size(step.dropped) / most) * base;
        const decided = (step.accepted.length / best) * (high - base - 3);
        group.append(svg("rect", { class: "r", x, width: w, y: base - rows, height: rows }));
        group.append(svg("rect", { class: "x", x, width: w, y: base - dropped, height: dropped }));
        group.append(svg("rect", { class: "d", x, width: w, y: base + 2, height: decided }));
        this.chart.append(group);
        return group;
      });
      this.cursor = svg("line", { x1: 0, x2: 0, y1: 0, y2: high });
      this.chart.append(this.cursor);
    }
    show(t) {
      const { decode } = this, done = t >= decode.steps.length;
      t = Math.min(t, decode.steps.length);
      const step = t > 0 ? decode.steps[t - 1] : null;
      const judged = new Map();
      if (step) step.position.forEach((p, c) => judged.set(p, c));
      // Left out, not merely still to come: a hole in what is seen.
      const seenEnd = Math.max(0, ...(step?.visible ?? []).map(([, last]) => last));
      this.cells.forEach((cell, i) => {
        const p = decode.begin + i;
        const before = (decode.at.get(p) ?? []).filter((f) => f.forward <= t), fate = before.at(-1);
        const decided = fate && fate.token !== null;
        const now = decided && fate.forward === t;
        let text = "·", label = null, title = `position ${i}: masked`, guess = false;
        if (decided) {
          text = fate.text;
          label = decode.label(fate.token);
          title = `position ${i}: ${JSON.stringify(fate.text)}, unmasked by forward pass ${fate.forward} with confidence ${fate.confidence}`;
        } else if (judged.has(p)) {
          const c = judged.get(p);
          text = decode.text(step.token[c]);
          label = decode.label(step.token[c]);
          guess = true;
          title = `position ${i}: masked; best guess ${JSON.stringify(text)} with confidence ${step.confidence[c]}`;
        }
        const edits = before.filter((f, n) => n > 0 && f.token !== null && before[n - 1].token !== null).length;
        if (edits) title += `; edited ${edits === 1 ? "once" : `${edits} times`}`;
        const back = before.filter((f) => f.token === null);
        if (back.length) title += `; remasked by forward pass ${back.map((f) => f.forward).join(", ")}`;
        const computed = step && inside(step.rows, p);
        const dropped = step && inside(step.dropped, p);
        const flags = {
          computed, dropped, guess, cached: step && inside(step.cached, p),
          hidden: p < seenEnd && !inside(step.visible, p),
          after: decided && p > decode.stop, special: !label && special(text),
        };
        for (const [name, on] of Object.entries(flags)) {
          if (on) cell.dataset[name] = "";
          else delete cell.dataset[name];
        }
        if (computed) title += dropped ? "; computed, then evicted inside the forward pass" : "; computed";
        cell.dataset.state = now ? "now" : decided ? "decided" : "masked";
        cell.style.setProperty("--tone", decided ? tone(fate.confidence) : "transparent");
        cell.textContent = label ? label : special(text) ? text.replace(/^<\||\|>$/g, "") : shown(text);
        cell.title = title;
      });
      const total = decode.totals[t], before = decode.totals[Math.max(0, t - 1)];
      const put = (name, value, more) => {
        const node = this.out(name);
        node.firstChild.textContent = value;
        node.lastChild.textContent = more;
      };
      put("rows", step ? total.rows - before.rows : 0, ` of ${total.rows}`);
      put("dropped", step ? total.dropped - before.dropped : 0, ` of ${total.dropped}`);
      put("decided", step ? total.decided - before.decided : 0, ` of ${total.decided}`);
      put("redundancy", total.decided ? (total.decodeRows / total.decided).toFixed(1) : "–", "");
      this.root.querySelector(".state").textContent =
        `forward pass ${t} of ${decode.steps.length}` + (done ? ", done" : step ? `, ${step.phase}` : "");
      const packed = step && step.keys !== null && !step.visible ? " of a compacted cache" : "";
      const keys = step && step.keys !== null ? `${step.keys} keys${packed} seen; ` : "";
      this.root.querySelector(".keys").textContent = step
        ? `${keys}${size(step.cached)} response positions cached; ${step.rows.reduce((n, [a, b]) => n + Math.max(0, Math.min(b, decode.begin) - a), 0)} prompt positions computed`
        : "nothing computed yet";
      this.drawStrip(step);
      this.bars.forEach((bar, i) => bar.classList.toggle("future", i >= t));
      const x = (t / decode.steps.length) * 400;
      this.cursor.setAttribute("x1", x);
      this.cursor.setAttribute("x2", x);
      this.root.dataset.forward = t;
    }
  }

  const sides = [new Side($("side-a")), new Side($("side-b"))];
  const player = { t: 0, end: 0, by: "forward", timer: 0 };
  const ticks = 120; // of the clock that counts rows

  const mostRows = () => Math.max(...sides.map((s) => s.decode.totals.at(-1).rows));
  const tickOfRows = (rows) => Math.ceil((rows / mostRows()) * ticks);
  function forwardOf(side) {
    if (player.by === "forward") return player.t;
    const budget = (player.t / ticks) * mostRows() + 1e-9;
    let t = 0;
    while (t < side.decode.steps.length && side.decode.totals[t + 1].rows <= budget) ++t;
    return t;
  }
  function render() {
    for (const side of sides) side.show(forwardOf(side));
    $("clock").value = player.t;
    const text = player.by === "forward"
      ? `forward pass ${player.t} / ${player.end}`
      : `${Math.round((player.t / ticks) * mostRows())} / ${mostRows()} positions`;
    $("where").textContent = text;
    $("clock").setAttribute("aria-valuetext", text);
  }
  function pause() {
    clearInterval(player.timer);
    player.timer = 0;
    $("play").textContent = "▶ Play";
    $("play").setAttribute("aria-pressed", "false");
  }
  function jump(t) {
    player.t = Math.max(0, Math.min(player.end, t));
    if (player.t === player.end) pause();
    render();
  }
  function play() {
    if (player.timer) return pause();
    if (player.t >= player.end) player.t = 0;
    const pace = player.by === "rows" ? 8 : 1; // ticks are finer than forwards
    player.timer = setInterval(() => jump(player.t + 1), Number($("speed").value) / pace);
    $("play").textContent = "‖ Pause";
    $("play").setAttribute("aria-pressed", "true");
    render();
  }
  function measure(keep) {
    const share = player.end ? player.t / player.end : 0;
    player.end = player.by === "forward" ? Math.max(...sides.map((s) => s.decode.steps.length)) : ticks;
    player.t = keep ? Math.round(share * player.end) : 0;
    $("clock").max = player.end;
    render();
  }
  function option(select, label, value) {
    const node = document.createElement("option");
    node.textContent = label;
    node.value = value;
    select.append(node);
  }
  function loadSide(which) {
    const group = data.groups[$("request").value];
    const trace = group.decodes[$(which ? "method-b" : "method-a").value];
    sides[which].load(prepare(trace, group.text, group.stops));
    sides[which].root.querySelector(".name").textContent = trace.label;
  }
  function loadRequest() {
    const group = data.groups[$("request").value];
    for (const [place, id] of [[0, "method-a"], [1, "method-b"]]) {
      const select = $(id);
      select.replaceChildren();
      group.decodes.forEach((d, i) => option(select, d.label, i));
      select.value = place ? group.decodes.length - 1 : 0;
    }
    loadSide(0);
    loadSide(1);
    measure(false);
  }

  data.groups.forEach((g, i) => option($("request"), g.name, i));
  $("request").addEventListener("change", () => { pause(); loadRequest(); });
  $("method-a").addEventListener("change", () => { loadSide(0); measure(true); });
  $("method-b").addEventListener("change", () => { loadSide(1); measure(true); });
  $("by").addEventListener("change", (event) => { pause(); player.by = event.target.value; measure(true); });
  $("speed").addEventListener("change", () => { if (player.timer) { pause(); play(); } });
  $("play").addEventListener("click", play);
  $("first").addEventListener("click", () => { pause(); jump(0); });
  $("back").addEventListener("click", () => { pause(); jump(player.t - 1); });
  $("next").addEventListener("click", () => { pause(); jump(player.t + 1); });
  $("last").addEventListener("click", () => { pause(); jump(player.end); });
  $("clock").addEventListener("input", (event) => { pause(); jump(Number(event.target.value)); });
  // Keys work wherever the focus is while the player stands in the middle of the window, but those
  // that mean something to what has the focus.
  const inView = () => {
    const box = $("player").getBoundingClientRect();
    return box.top < 0.75 * innerHeight && box.bottom > 0.25 * innerHeight;
  };
  document.addEventListener("keydown", (event) => {
    const tag = event.target.tagName, own = $("player").contains(event.target);
    if (tag === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!own && (!inView() || event.target.closest("input, textarea, button, summary, a, [tabindex]"))) return;
    if (!own && (event.key === "Home" || event.key === "End")) return; // they are the page's
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move && event.target.id !== "clock") { pause(); jump(player.t + move); event.preventDefault(); }
    if (event.key === "Home" && event.target.id !== "clock") { pause(); jump(0); event.preventDefault(); }
    if (event.key === "End" && event.target.id !== "clock") { pause(); jump(player.end); event.preventDefault(); }
    if (event.key === " " && tag !== "BUTTON" && tag !== "SUMMARY") { play(); event.preventDefault(); }
  });
  loadRequest();
  jump(Math.round(player.end / 3)); // a first look shows more than an empty canvas
})();
