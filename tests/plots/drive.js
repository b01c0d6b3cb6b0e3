// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
// Runs inside the report page: uses it as a reader would and writes what it saw into #outcome.
"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  const wait = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
  const change = (node, value, event) => {
    node.value = value;
    node.dispatchEvent(new Event(event, { bubbles: true }));
  };
  const look = (id) => {
    const side = $(id), count = (name) => side.querySelector(`[data-count="${name}"]`).textContent;
    return {
      forward: Number(side.dataset.forward),
      name: side.querySelector(".name").textContent,
      state: side.querySelector(".state").textContent,
      rows: count("rows"), decided: count("decided"), dropped: count("dropped"),
      redundancy: count("redundancy"),
      strip: [...side.querySelectorAll(".strip rect")].map((r) => [
        r.getAttribute("class"), Number(r.getAttribute("x")), Number(r.getAttribute("width"))]),
      cells: [...side.querySelectorAll(".canvas .cell")].map((c) => [
        Number(c.dataset.p), c.dataset.state, "computed" in c.dataset, "dropped" in c.dataset,
        "cached" in c.dataset, c.title]),
    };
  };
  const both = () => [look("side-a"), look("side-b")];
  const out = { errors: window.seenErrors };
  try {
    for (let n = 0; n < 200 && !$("request").options.length; ++n) await wait(50);
    out.requests = [...$("request").options].map((o) => o.textContent);
    out.steps = [];
    for (let r = 0; r < out.requests.length; ++r) {
      change($("request"), String(r), "change");
      const seen = [both()];
      while (Number($("clock").value) < Number($("clock").max)) {
        $("next").click();
        seen.push(both());
      }
      out.steps.push(seen);
    }
    $("first").click();
    out.first = look("side-a").forward;
    $("last").click();
    out.last = look("side-a").forward;
    $("back").click();
    out.back = Number($("clock").value);
    change($("clock"), "2", "input");
    out.slider = look("side-a").forward;
    const key = (name) => $("player").dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
    key("ArrowRight");
    out.right = look("side-a").forward;
    key("ArrowLeft");
    out.left = look("side-a").forward;
    key("Home");
    out.home = look("side-a").forward;
    key("End");
    out.end = Number($("clock").value);
    key("Home");
    change($("speed"), "150", "change");
    $("play").click();
    out.playing = $("play").getAttribute("aria-pressed");
    // A browser may slow the timers of a page that nobody sees.
    for (let n = 0; n < 100 && Number($("clock").value) < 3; ++n) await wait(50);
    out.played = Number($("clock").value);
    $("play").click();
    const stopped = Number($("clock").value);
    await wait(1500);
    out.paused = Number($("clock").value) === stopped;
    change($("by"), "rows", "change");
    out.byRows = [0, 30, 60, 90, 120].map((t) => {
      change($("clock"), String(t), "input");
      return [look("side-a").forward, look("side-b").forward, $("where").textContent];
    });
    change($("by"), "forward", "change");
    change($("method-b"), "0", "change");
    out.same = both().map((s) => s.name);
    const bar = $("side-a").querySelector(".chart").getBoundingClientRect();
    $("side-a").querySelector(".chart").dispatchEvent(new MouseEvent("click", {
      clientX: bar.left + bar.width * 0.999, bubbles: true }));
    out.chart = look("side-a").forward;
    const speed = [...document.querySelectorAll("table.sortable th")].find(
      (c) => c.textContent.startsWith("tokens/s"));
    const table = speed.closest("table");
    const values = () => [...table.tBodies[0].rows].map((r) => r.cells[speed.cellIndex])
      .map((c) => Number(c.dataset.v ?? c.textContent));
    speed.querySelector("button").click();
    out.ascending = [values(), speed.getAttribute("aria-sort")];
    speed.querySelector("button").click();
    out.descending = [values(), speed.getAttribute("aria-sort")];
    const colour = () => getComputedStyle(document.body).backgroundColor;
    const light = colour();
    $("theme").click();
    out.theme = [light, colour()];
    $("theme").click();
    out.themeBack = colour();
    out.unnamed = [...document.querySelectorAll("button, input, select, summary, a[href], [tabindex]")]
      .filter((n) => !(n.textContent.trim() || n.getAttribute("aria-label") || n.labels?.length))
      .map((n) => n.outerHTML.slice(0, 80));
    out.width = [document.documentElement.scrollWidth, innerWidth];
    out.figures = [...document.querySelectorAll("figure svg")].map((s) => {
      const box = s.getBoundingClientRect();
      return [box.width, box.height];
    });
  } catch (problem) {
    out.errors.push(String(problem.stack));
  }
  const pre = document.createElement("pre");
  pre.id = "outcome";
  pre.textContent = JSON.stringify(out);
  document.body.append(pre);
})();
