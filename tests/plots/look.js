// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
// Runs inside the report page and says how it stands in a window of this size: what sticks out,
// overlaps or is hard to read, what the keys, the filters and closed parts do.
"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  const wait = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
  const until = async (done) => { for (let n = 0; n < 200 && !done(); ++n) await wait(50); };
  const all = (words, below = document) => [...below.querySelectorAll(words)];
  const out = { errors: window.seenErrors };
  // Colours with what shines through: [r, g, b] of a text and of what is behind it.
  const parts = (colour) => {
    const n = colour.match(/[\d.]+/g).map(Number);
    return colour.startsWith("color(srgb") ? [n[0] * 255, n[1] * 255, n[2] * 255, n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1];
  };
  const over = (top, share, below) => below.map((b, i) => top[i] * share + b * (1 - share));
  const behind = (node) => {
    if (!node) return [255, 255, 255];
    const [r, g, b, a] = parts(getComputedStyle(node).backgroundColor);
    return a === 1 ? [r, g, b] : over([r, g, b], a, behind(node.parentElement));
  };
  const bright = (c) => c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (node) => {
    const own = getComputedStyle(node), back = behind(node);
    const outer = behind(node.parentElement);
    const text = over(parts(own.color), Number(own.opacity), outer);
    const ground = over(back, Number(own.opacity), outer);
    const [a, b] = [bright(text), bright(ground)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  try {
    await until(() => !$("player") || $("request").options.length > 0);
    out.nodes = all("*").length;
    const wide = () => document.documentElement.scrollWidth - document.documentElement.clientWidth;
    out.wide = wide();
    out.inner = innerWidth;
    const edge = document.documentElement.clientWidth + 1;
    const scrolls = (node) => node.closest(".scroll, .paper, nav, pre, .strip, .chart, defs, [hidden], .skip, #claims thead");
    const outside = () => all("main *").filter((n) => !scrolls(n) && n.getBoundingClientRect().right > edge)
      .map((n) => n.outerHTML.slice(0, 90));
    out.outside = outside();
    out.cut = all(".counts dt, .counts dd, .counts div, .badge, .transport > *, .choose > *, .filter > *")
      .filter((n) => n.scrollWidth > n.clientWidth + 1 && n.clientWidth > 0).map((n) => n.outerHTML.slice(0, 90));
    const boxes = all(".side .counts dt, .side .counts dd").map((n) => {
      const range = document.createRange();
      range.selectNodeContents(n);
      return [n, range.getBoundingClientRect()];
    });
    out.overlaps = [];
    for (const [a, x] of boxes) {
      for (const [b, y] of boxes) {
        if (a === b || !x.width || !y.width) continue;
        if (x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 4 && y.top < x.bottom - 4) {
          out.overlaps.push(`${a.textContent} / ${b.textContent}`);
        }
      }
    }
    out.squeezed = all("#claims td").filter((n) => // cards, not cells
      getComputedStyle(n.parentNode).display === "flex" && n.offsetHeight > 3 * n.offsetWidth).map((n) => n.textContent);
    out.verdictsInView = all("#claims tbody .badge").every((n) => n.getBoundingClientRect().right <= edge);
    out.pale = all(".legend .cell, .quiet, .cards dt, .badge, figcaption, .note, nav a, small, caption")
      .filter((n) => n.getClientRects().length && contrast(n) < 4.5)
      .map((n) => `${contrast(n).toFixed(2)} ${n.outerHTML.slice(0, 90)}`).slice(0, 5);
    out.ground = getComputedStyle(document.body).backgroundColor;
    // Letters of figures, in pixels: 7 points of a figure of so many points.
    const letters = () => all("figure svg").filter((s) => s.getClientRects().length)
      .map((s) => (7 * s.getBoundingClientRect().width) / s.viewBox.baseVal.width);
    if ($("player")) {
      $("player").scrollIntoView({ behavior: "instant" });
      await wait(300);
      const key = (name) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
      const at = () => Number($("clock").value);
      const start = at();
      key("ArrowRight");
      out.right = at() - start;
      key("ArrowLeft");
      out.left = at() - start;
      out.spaceTaken = !key(" ");
      out.playing = $("play").getAttribute("aria-pressed");
      key(" ");
      const page = document.createElement("input");
      document.body.append(page);
      page.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
      out.inField = at();
      page.remove();
      out.now = at();
      scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
      await wait(300);
      const before = at();
      key("ArrowRight");
      out.away = at() - before;
    }
    const closed = all(".part > .body");
    out.closed = closed.filter((n) => n.getAttribute("hidden") === "until-found").length;
    const first = all(".part .opens").find((n) => n.closest("section").id.startsWith("part-"));
    if (first) {
      const body = $(first.getAttribute("aria-controls"));
      first.click();
      await until(() => !body.querySelector(".later:empty"));
      out.opened = [first.getAttribute("aria-expanded"), body.hidden, all("table.sortable", body).length];
      first.click();
      out.shutAgain = [first.getAttribute("aria-expanded"), body.getAttribute("hidden")];
      const other = all(".part > .body .later")[1].closest(".body");
      other.dispatchEvent(new Event("beforematch", { bubbles: true }));
      await until(() => !other.querySelector(".later:empty"));
      out.found = [other.hidden, all("table.sortable", other).length];
    }
    out.outsideOpened = outside();
    out.letters = Math.min(...letters(), 99);
    const zoom = all(".zoom").find((n) => n.getClientRects().length);
    if (zoom) {
      const svg = zoom.closest("figure").querySelector("svg"), small = svg.getBoundingClientRect().width;
      zoom.click();
      out.zoom = [small, svg.getBoundingClientRect().width, wide()];
      zoom.click();
    }
    if ($("claim-filter")) {
      const shown = () => all("#claims tbody tr").filter((n) => !n.hidden);
      const set = (id, value) => {
        $(id).value = value;
        $(id).dispatchEvent(new Event("input", { bubbles: true }));
      };
      const verdict = $("claim-verdict").options[1].value, paper = $("claim-paper").options[1]?.value ?? "";
      out.claims = all("#claims tbody tr").length;
      set("claim-verdict", verdict);
      out.byVerdict = [verdict, shown().length, shown().every((n) => n.dataset.verdict === verdict)];
      set("claim-paper", paper);
      out.byPaper = [paper, shown().length, shown().every((n) => n.dataset.paper === paper)];
      set("claim-verdict", "");
      set("claim-paper", "");
      set("claim-search", "no such words");
      out.byNothing = shown().length;
      set("claim-search", shown.word = all("#claims tbody td")[0].textContent.split(" ")[0]);
      out.byWord = shown().length;
      set("claim-search", "");
      out.claimLinks = all("#claims td:first-child a").map((n) => [n.textContent, Boolean($(n.hash.slice(1)))]);
    }
    out.titles = all("h2").map((n) => n.textContent);
    out.noCaption = all("table").filter((n) => !n.caption?.textContent).length;
    out.alt = all("figure svg").map((n) => n.getAttribute("aria-label"));
  } catch (problem) {
    out.errors.push(String(problem.stack));
  }
  const pre = document.createElement("pre");
  pre.id = "outcome";
  pre.textContent = JSON.stringify(out);
  document.body.append(pre);
  if (parent !== window) parent.postMessage(pre.textContent, "*");
})();
